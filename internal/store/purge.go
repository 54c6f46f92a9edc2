package store

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

var purgeScript = newScript("purge")

// Purge deletes up to MaxPop of the topic's next ready jobs, of so many entries of its queue at
// most. It returns how many jobs there were, and how many entries; these are fewer also where that
// took enough time.
func (s *Store) Purge(ctx context.Context, topic string, entries int) (deleted, used int, err error) {
	reply, err := redis.Values(s.one(ctx, purgeScript, []string{s.keys.JobPool(), s.keys.ReadyQueue(topic)}, MaxPop, entries, topic))
	if err != nil {
		return 0, 0, err
	}
	if _, err := redis.Scan(reply, &deleted, &used); err != nil {
		return 0, 0, errReply("purge", reply)
	}
	return deleted, used, nil
}
