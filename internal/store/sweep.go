package store

import (
	"context"
	"slices"
)

var (
	sweepScript        = newScript("sweep")
	registerDeadScript = newScript("register_dead")
)

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
	Uncounted []Uncounted
	Excluded  []string // topics with ready jobs whose limits let this partition reserve none
}

// Sweep cleans up some of the known topics: it drops entries without a job from the delivery ends of their ready queues, forgets empty
// topics, repairs the numbers of reserved jobs, and removes IDs whose push no longer counts. It lists the topics whose reserved jobs may
// lack slots: see AssignSlots.
func (s *Store) Sweep(ctx context.Context, after Position) (Swept, error) {
	k := s.keys
	args := append(arguments(4, k.JobPool(), k.Topics(), k.TopicsDue(), k.Reserved()), sweepTopics, sweepEntries, after.At, after.ID)
	return newCall(s, sweepScript, args, func(reply any) (swept Swept, err error) {
		var uncounted []string
		rest, err := scan(reply, &swept.More, &swept.Last.At, &swept.Last.ID, &swept.Forgotten, &uncounted, &swept.Excluded)
		for pair := range slices.Chunk(uncounted, 2) {
			swept.Uncounted = append(swept.Uncounted, Uncounted{Topic: pair[0], Mark: pair[1]})
		}
		swept.Gone = topicIDsOf(rest)
		return swept, err
	}).Do(ctx)
}

// RegisterDead registers some of the topics that have dead letters and are not known, because an earlier migration moved them. The next
// call starts at next; zero is the beginning, and the end.
func (s *Store) RegisterDead(ctx context.Context, after Position) (next Position, err error) {
	args := append(arguments(3, s.keys.DeadTopics()), sweepTopics, after.At, after.ID)
	return newCall(s, registerDeadScript, args, func(reply any) (next Position, err error) {
		_, err = scan(reply, &next.At, &next.ID)
		return next, err
	}).Do(ctx)
}
