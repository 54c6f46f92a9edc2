package store

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

var statsScript = newScript("stats")

// TopicCounts are how many jobs a topic has. A number that can't be read is -1.
type TopicCounts struct {
	Topic                 string
	Ready, Reserved, Dead int
}

// Stats tells how many jobs are in the pool, waiting and reserved, and up to n of the known
// topics' counts, but for the first ones.
func (s *Store) Stats(ctx context.Context, first, n int) (pool int, topics []TopicCounts, err error) {
	keys := []string{s.keys.JobPool(), s.keys.Topics(), s.keys.Reserved()}
	reply, err := redis.Values(s.one(ctx, statsScript, keys, s.keys.ReadyQueue(""), s.keys.DeadLetters(""), first, n))
	if err != nil {
		return 0, nil, err
	}
	rest, err := redis.Scan(reply, &pool)
	for err == nil && len(rest) >= 4 {
		var t TopicCounts
		rest, err = redis.Scan(rest, &t.Topic, &t.Ready, &t.Reserved, &t.Dead)
		topics = append(topics, t)
	}
	if err != nil {
		return 0, nil, errReply("stats", reply)
	}
	return pool, topics, nil
}
