package server

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// untaggedAgain is how often a topic is logged.
const untaggedAgain = time.Hour

// untagged remembers the logged topics that have ready jobs without the tag of the topic's limit.
type untagged struct {
	mu     sync.Mutex
	logged map[string]time.Time
}

// reportUntagged logs, once an hour for each topic, how many of its jobs cannot be reserved. The first partition that finds
// some counts those of all partitions.
func (s *Server) reportUntagged(ctx context.Context, topics []string) {
	for _, topic := range topics {
		if !s.untagged.begin(topic) {
			continue
		}
		l, jobs, err := s.fleet.Untagged(ctx, topic)
		if err != nil || jobs == 0 { // the next sweep tries again
			s.untagged.forget(topic)
			continue
		}
		s.log.Warn(fmt.Sprintf("%d ready jobs lack %s, the tag of their topic's limit, and cannot be reserved; set a limit without a tag, or push them again with that tag in their IDs",
			jobs, store.Quote(l.Tag)), slog.String("topic", topic))
	}
}

// begin reports whether to log the topic now, and remembers that it was logged.
func (u *untagged) begin(topic string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	for known, at := range u.logged {
		if now.Sub(at) >= untaggedAgain {
			delete(u.logged, known)
		}
	}
	if _, known := u.logged[topic]; known {
		return false
	}
	if u.logged == nil {
		u.logged = map[string]time.Time{}
	}
	u.logged[topic] = now
	return true
}

func (u *untagged) forget(topic string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.logged, topic)
}
