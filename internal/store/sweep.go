package store

import "context"

var sweepScript = newScript("sweep")

const (
	// sweepTopics and sweepEntries are the maximum numbers of topics, and of entries of their queues, that one Sweep handles.
	sweepTopics, sweepEntries = 100, 500
)

// Swept is the result of a Sweep.
type Swept struct {
	Last      Position   // start of the next Sweep
	More      bool       // there are more topics, or IDs whose push no longer counts
	Forgotten int        // number of empty topics removed
	Gone      []TopicIDs // stale entries, by topic
	Buried    []TopicIDs // jobs that were about to expire and are dead letters now, by topic
	Excluded  []string   // topics with ready jobs whose limits let this partition reserve none
}

// Sweep cleans up some of the known topics: it drops entries without a job from the delivery ends of their ready queues, makes dead letters
// of jobs that are about to expire there, forgets empty topics, repairs the numbers of reserved jobs, and removes IDs whose push no longer
// counts.
func (s *Store) Sweep(ctx context.Context, after Position) (Swept, error) {
	k := s.keys
	args := append(arguments(4, k.JobPool(), k.Topics(), k.TopicsDue(), k.Reserved()), sweepTopics, sweepEntries, after.At, after.ID)
	return newCall(s, sweepScript, args, func(reply any) (swept Swept, err error) {
		var buried []any
		rest, err := scan(reply, &swept.More, &swept.Last.At, &swept.Last.ID, &swept.Forgotten, &swept.Excluded, &buried)
		swept.Gone, swept.Buried = topicIDsOf(rest), topicIDsOf(buried)
		return swept, err
	}).Do(ctx)
}
