package server

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// untaggedAgain is after how long the log names a topic again.
const untaggedAgain = time.Hour

// untagged are the topics that the log has named because some of their ready jobs lack the tag of their limit.
type untagged struct {
	mu   sync.Mutex
	said map[string]time.Time
}

// reportUntagged tells the log how many jobs of the topics nobody can reserve, each topic once an hour. Every partition in which a sweep finds
// some names the topic, so the first one counts them in all.
func (s *Server) reportUntagged(ctx context.Context, topics []string) {
	for _, topic := range topics {
		if !s.untagged.begin(topic) {
			continue
		}
		l, jobs, err := s.partitions.Untagged(ctx, topic)
		if err != nil || jobs == 0 { // the next sweep tries again
			s.untagged.forget(topic)
			continue
		}
		s.log.Warn(fmt.Sprintf("%d ready jobs lack %s, the tag of their topic's limit, nobody will get them; set a limit without a tag, or push them again with that tag in their IDs",
			jobs, store.Quote(l.Tag)), slog.String("topic", topic))
	}
}

// begin reports whether the log is to name the topic, and takes note of that.
func (u *untagged) begin(topic string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	for known, at := range u.said {
		if now.Sub(at) >= untaggedAgain {
			delete(u.said, known)
		}
	}
	if _, known := u.said[topic]; known {
		return false
	}
	if u.said == nil {
		u.said = map[string]time.Time{}
	}
	u.said[topic] = now
	return true
}

func (u *untagged) forget(topic string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.said, topic)
}
