package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	takeScript    = script("take", "common")
	restoreScript = script("restore", "common")
)

// Taken is a job that has left Redis.
type Taken struct {
	Job
	TTL time.Duration // lifetime that was left; -1 if endless
}

// MaxTake is how many jobs one TakeBatch may ask for.
const MaxTake = 1000

// Take is TakeBatch for one job.
func (s *Store) Take(ctx context.Context, topics []string) (taken Taken, ghosts []string, err error) {
	batch, ghosts, err := s.TakeBatch(ctx, topics, 1)
	if len(batch) == 1 {
		taken = batch[0]
	}
	return taken, ghosts, err
}

// TakeBatch takes up to n of the next jobs of the topics, those of the first topic first;
// ErrEmpty when there is none. ghosts are the IDs met in the queues whose jobs
// are gone. Once ctx is done nothing more is sent, but a take that is on its way is
// waited for. With another error, what was taken before it is returned as well.
func (s *Store) TakeBatch(ctx context.Context, topics []string, n int) (taken []Taken, ghosts []string, err error) {
	keys := make([]string, 0, 1+len(topics))
	keys = append(keys, s.keys.JobPool())
	args := make([]any, 0, 3+len(topics))
	args = append(args, s.keys.JobBucket(""), s.keys.ReadyQueue(""), n)
	for _, topic := range topics {
		keys = append(keys, s.keys.ReadyQueue(topic))
		args = append(args, topic)
	}
	for {
		args[2] = n - len(taken)
		reply, err := redis.Values(s.runThrough(ctx, takeScript, keys, args...))
		if err != nil {
			return taken, ghosts, err
		}
		more, met, jobs, err := takenOf(reply, topics)
		taken, ghosts = append(taken, jobs...), append(ghosts, met...)
		switch {
		case err != nil:
			return taken, ghosts, err
		case more:
			continue
		case len(taken) == 0:
			return nil, ghosts, ErrEmpty
		}
		return taken, ghosts, nil
	}
}

func takenOf(reply []any, topics []string) (more bool, ghosts []string, taken []Taken, err error) {
	rest, err := redis.Scan(reply, &more, &ghosts)
	if err != nil {
		return false, nil, nil, errReply("take", reply)
	}
	for ; len(rest) >= 2; rest = rest[2:] {
		queue, _ := rest[0].(int64)
		jobs, ok := rest[1].([]any)
		if !ok || len(jobs)%3 != 0 || queue < 1 || int(queue) > len(topics) {
			return false, ghosts, taken, errReply("take", reply)
		}
		taken = slices.Grow(taken, len(jobs)/3)
		for ; len(jobs) > 0; jobs = jobs[3:] {
			id, _ := jobs[0].([]byte)
			body, _ := jobs[1].([]byte)
			ttl, _ := jobs[2].(int64)
			taken = append(taken, Taken{Job{string(id), topics[queue-1], string(body)}, lifetime(ttl)})
		}
	}
	return more, ghosts, taken, nil
}

// Restore puts a job back that was taken for somebody who has gone, as the next
// of its topic. A job pushed under its ID meanwhile stands.
func (s *Store) Restore(ctx context.Context, taken Taken) error {
	ttl := int64(-1)
	if taken.TTL >= 0 {
		ttl = milliseconds(taken.TTL)
	}
	keys := []string{s.keys.JobPool(), s.keys.JobBucket(taken.ID), s.keys.ReadyQueue(taken.Topic)}
	_, err := s.run(ctx, restoreScript, keys, taken.ID, taken.Topic, taken.Body, ttl)
	return err
}

// waitGrace is what a blocking command's answer may be late by.
const waitGrace = 3 * time.Second

// Wait blocks on conn until the topic's queue has an entry, which stays where
// it is, or the timeout is over; it reports whether there is one. The entry may be a ghost.
// It moves the last entry onto its own place: Redis has no other way to wait for
// a list without taking from it.
func (s *Store) Wait(conn redis.Conn, topic string, timeout time.Duration) (bool, error) {
	queue := s.keys.ReadyQueue(topic)
	reply, err := redis.DoWithTimeout(conn, timeout+waitGrace, "BLMOVE", queue, queue, "RIGHT", "RIGHT", fmt.Sprintf("%.3f", timeout.Seconds()))
	return reply != nil, err
}
