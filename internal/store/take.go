package store

import (
	"context"
	"fmt"
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

// Take takes the next job of the first topic that has one; ErrEmpty when none
// has. ghosts are the IDs met in the queues whose jobs are gone. Once ctx is done
// nothing more is sent, but a take that is on its way is waited for.
func (s *Store) Take(ctx context.Context, topics []string) (taken Taken, ghosts []string, err error) {
	keys := make([]string, 0, 1+len(topics))
	keys = append(keys, s.keys.JobPool())
	args := make([]any, 0, 2+len(topics))
	args = append(args, s.keys.JobBucket(""), s.keys.ReadyQueue(""))
	for _, topic := range topics {
		keys = append(keys, s.keys.ReadyQueue(topic))
		args = append(args, topic)
	}
	for {
		reply, err := redis.Values(s.runThrough(ctx, takeScript, keys, args...))
		if err != nil {
			return Taken{}, ghosts, err
		}
		var more bool
		var met []string
		var ttl int64
		rest, err := redis.Scan(reply, &more, &met)
		if err != nil {
			return Taken{}, ghosts, errReply("take", reply)
		}
		ghosts = append(ghosts, met...)
		switch {
		case more:
			continue
		case len(rest) == 0:
			return Taken{}, ghosts, ErrEmpty
		}
		if _, err := redis.Scan(rest, &taken.ID, &taken.Topic, &taken.Body, &ttl); err != nil {
			return Taken{}, ghosts, errReply("take", reply)
		}
		taken.TTL = lifetime(ttl)
		return taken, ghosts, nil
	}
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
