package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	takeScript    = newScript("take", "checks")
	restoreScript = newScript("restore", "checks")
)

// Taken is a job that has left Redis.
type Taken struct {
	Job
	TTL time.Duration // lifetime that was left; -1 if endless
}

// takeStep is how many jobs one script call takes at most, so that it does not
// keep Redis from others.
const takeStep = 250

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
	for again := true; again && err == nil; {
		var some []Taken
		var met []string
		some, met, again, err = s.takeSteps(ctx, topics, n-len(taken))
		taken, ghosts = append(taken, some...), append(ghosts, met...)
	}
	if err == nil && len(taken) == 0 {
		err = ErrEmpty
	}
	return taken, ghosts, err
}

// takeSteps asks for n jobs, in steps. again is whether there may be more although it got fewer.
func (s *Store) takeSteps(ctx context.Context, topics []string, n int) (taken []Taken, ghosts []string, again bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, false, err
	}
	// Once a take is on its way only the pool's timeouts end the wait for it.
	p, err := s.Pipeline(context.WithoutCancel(ctx))
	if err != nil {
		return nil, nil, false, err
	}
	defer p.Close()
	more := true
	for more && n > 0 && err == nil {
		var reply any
		if reply, err = p.receive(p.send(takeScript, s.takeArgs(topics, min(n, takeStep)))); err == nil {
			var met []string
			var jobs []Taken
			more, met, jobs, err = takenOf(reply, topics)
			taken, ghosts = append(taken, jobs...), append(ghosts, met...)
			again = again || more
			more = !more && len(jobs) == takeStep
			n -= len(jobs)
		}
	}
	return taken, ghosts, again, err
}

func (s *Store) takeArgs(topics []string, n int) []any {
	args := make([]any, 0, 6+2*len(topics))
	args = append(args, nil, 1+len(topics), s.keys.JobPool())
	for _, topic := range topics {
		args = append(args, s.keys.ReadyQueue(topic))
	}
	args = append(args, s.keys.JobBucket(""), s.keys.ReadyQueue(""), n)
	for _, topic := range topics {
		args = append(args, topic)
	}
	return args
}

func takenOf(reply any, topics []string) (more bool, ghosts []string, taken []Taken, err error) {
	list, _ := reply.([]any)
	rest, err := redis.Scan(list, &more, &ghosts)
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
	_, err := s.one(ctx, restoreScript, keys, taken.ID, taken.Topic, taken.Body, ttl)
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
