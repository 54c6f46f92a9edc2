package store

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

// Listeners are how many connections listen for the jobs of each topic: a program has one, however
// many of its callers wait. Who polls, or pops as the original does, is not among them.
func (s *Store) Listeners(ctx context.Context, topics []string) ([]int, error) {
	counts := make([]int, len(topics))
	if len(topics) == 0 {
		return counts, nil
	}
	conn, err := s.conns.Get(ctx)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	defer conn.Close()
	args := redis.Args{"NUMSUB"}
	for _, topic := range topics {
		args = args.Add(s.keys.Ready(topic))
	}
	reply, err := redis.Values(redis.DoContext(conn, ctx, "PUBSUB", args...))
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	for i := range counts {
		if 2*i+1 >= len(reply) {
			return nil, errReply("PUBSUB NUMSUB", reply)
		}
		n, _ := reply[2*i+1].(int64)
		counts[i] = int(n)
	}
	return counts, nil
}
