package store

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

var purgeScript = newScript("purge")

// ReadyCount is how many entries the topic's ready queue has.
func (s *Store) ReadyCount(ctx context.Context, topic string) (int, error) {
	p, err := s.Pipeline(ctx)
	if err != nil {
		return 0, err
	}
	defer p.Close()
	looked, err := p.Look(LookAt{Topics: []string{topic}})
	if err != nil {
		return 0, err
	}
	return looked.Lengths[0], nil
}

// Purge deletes up to MaxPop of the topic's next ready jobs, of so many entries of its queue at
// most. It returns how many jobs there were, and how many entries; these are fewer also where that
// took enough time.
func (s *Store) Purge(ctx context.Context, topic string, entries int) (deleted, used int, err error) {
	reply, err := redis.Values(s.one(ctx, purgeScript, []string{s.keys.JobPool(), s.keys.ReadyQueue(topic)}, MaxPop, "", 0, 0, entries, topic))
	if err != nil {
		return 0, 0, err
	}
	if _, err := redis.Scan(reply, &deleted, &used); err != nil {
		return 0, 0, errReply("purge", reply)
	}
	return deleted, used, nil
}
