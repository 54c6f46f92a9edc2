package store

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

var statsScript = newScript("stats", "unreadable", "fields")

// Stats are how many jobs there are, and how late. What can't be read, or was not asked for, is -1.
type Stats struct {
	Time    time.Time // Redis's; zero if it can't be read, or was not asked for
	Pool    int       // jobs in the pool: those that wait, and those that are reserved
	Waiting int       // those that wait, about
	Overdue time.Duration
	Topics  []TopicCounts // those that are known
}

// TopicCounts are how many jobs a topic has. What can't be read is -1.
type TopicCounts struct {
	Topic                 string
	Ready, Reserved, Dead int
	Overdue               time.Duration // for how long the next job has been ready, about; 0: none is
}

// statsPage is how many topics one script tells of.
const statsPage = 100

// Stats counts the jobs; if late is set, it also tells how late they are.
func (s *Store) Stats(ctx context.Context, late bool) (Stats, error) {
	var all Stats
	counted := map[string]bool{} // a topic may come again if others have become known meanwhile
	reserved := 0
	for first := 0; ; first += statsPage {
		page, err := s.statsOf(ctx, late, first, statsPage)
		if err != nil {
			return Stats{}, err
		}
		all.Time, all.Pool, all.Overdue = page.Time, page.Pool, page.Overdue
		for _, t := range page.Topics {
			if !counted[t.Topic] {
				counted[t.Topic] = true
				reserved += max(t.Reserved, 0)
				all.Topics = append(all.Topics, t)
			}
		}
		if len(page.Topics) < statsPage {
			all.Waiting = max(all.Pool-reserved, 0)
			return all, nil
		}
	}
}

// statsOf has up to n of the topics, but for the first ones.
func (s *Store) statsOf(ctx context.Context, late bool, first, n int) (Stats, error) {
	keys := []string{s.keys.JobPool(), s.keys.Topics(), s.keys.Reserved()}
	args := []any{s.keys.ReadyQueue(""), s.keys.DeadLetters(""), s.keys.JobBucket(""), first, n}
	if late {
		args = append(args, "late")
	}
	reply, err := redis.Values(s.one(ctx, statsScript, keys, args...))
	if err != nil {
		return Stats{}, err
	}
	var page Stats
	var now, overdue int64
	rest, err := redis.Scan(reply, &now, &page.Pool, &overdue)
	if now >= 0 {
		page.Time = time.UnixMicro(now)
	}
	page.Overdue = known(overdue)
	for err == nil && len(rest) >= 5 {
		var t TopicCounts
		rest, err = redis.Scan(rest, &t.Topic, &t.Ready, &t.Reserved, &t.Dead, &overdue)
		t.Overdue = known(overdue)
		page.Topics = append(page.Topics, t)
	}
	if err != nil {
		return Stats{}, errReply("stats", reply)
	}
	return page, nil
}
