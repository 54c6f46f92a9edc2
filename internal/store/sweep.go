package store

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

var sweepScript = newScript("sweep")

const (
	// sweepTopics and sweepEntries are how many topics, and entries of their queues, one Sweep looks
	// after, at most.
	sweepTopics, sweepEntries = 100, 500
)

// Swept is what came of a Sweep.
type Swept struct {
	// Last is where the next Sweep goes on; zero if there are no more topics.
	Last      Place
	More      bool
	Forgotten int        // topics that have nothing any more
	Gone      []TopicIDs // stale entries, of each topic that had some
}

// Sweep looks after some of the known topics: it takes entries without a job off the end of their ready
// queues from which jobs are delivered, forgets those that have nothing any more, and puts right
// what is kept of how many jobs are reserved.
func (s *Store) Sweep(ctx context.Context, after Place) (Swept, error) {
	k := s.keys
	reply, err := redis.Values(s.one(ctx, sweepScript, []string{k.JobPool(), k.Topics(), k.TopicsDue(), k.Reserved()},
		sweepTopics, sweepEntries, after.At, after.ID))
	if err != nil {
		return Swept{}, err
	}
	var swept Swept
	rest, err := redis.Scan(reply, &swept.More, &swept.Last.At, &swept.Last.ID, &swept.Forgotten)
	if err != nil {
		return Swept{}, errReply("sweep", reply)
	}
	for ; len(rest) >= 2; rest = rest[2:] {
		topic, _ := rest[0].([]byte)
		ids, _ := rest[1].([]any)
		swept.Gone = append(swept.Gone, TopicIDs{string(topic), ids})
	}
	return swept, nil
}
