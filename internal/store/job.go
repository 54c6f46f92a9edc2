package store

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	rescheduleScript = newScript("reschedule", "permitted", "queue_type", "put_back", "withdraw", "clock", "next_due", "ready", "lease")
	removeScript     = newScript("remove", "permitted", "withdraw", "lease")
	getScript        = newScript("get", "lease")
)

// Reschedule gives the job a new delay.
func (s *Store) Reschedule(ctx context.Context, id string, delay time.Duration) error {
	keys := []string{s.keys.JobPool(), s.keys.JobBucket(id)}
	found, err := redis.Int(s.one(ctx, rescheduleScript, keys, id, milliseconds(delay), s.keys.ReadyQueue(""), s.keys.FirstDue(), s.keys.Ready(""), s.keys.Reserved()))
	if err == nil && found == 0 {
		err = ErrNotFound
	}
	return err
}

// Remove reports whether there was a job, which nobody gets from now on.
func (s *Store) Remove(ctx context.Context, id string) (bool, error) {
	keys := []string{s.keys.JobPool(), s.keys.JobBucket(id), s.keys.DeadLetter(id)}
	return redis.Bool(s.one(ctx, removeScript, keys, id, s.keys.ReadyQueue(""), s.keys.Reserved(), s.keys.DeadLetters(""), s.keys.DeadTopics()))
}

// Found is what Get knows of a job.
type Found struct {
	Job
	State       string        // waiting, ready, reserved or dead
	Due         time.Time     // when it is due, its lease ends, or it was buried; zero if it is ready
	TTL         time.Duration // until Redis drops the job; -1 if never
	Attempts    int
	MaxAttempts int    // 0 if the job doesn't say
	Error       string // of the last attempt, if one is known
	Reason      string // why it is dead
	Token       int64  // of the last reserve
}

// Get reads the job.
func (s *Store) Get(ctx context.Context, id string) (Found, error) {
	keys := []string{s.keys.JobPool(), s.keys.JobBucket(id), s.keys.DeadLetter(id)}
	reply, err := redis.Values(s.one(ctx, getScript, keys, id))
	if err != nil {
		return Found{}, err
	}
	if len(reply) == 0 {
		return Found{}, ErrNotFound
	}
	found := Found{Job: Job{ID: id}}
	var ttl int64
	var due string
	if _, err := redis.Scan(reply, &found.State, &found.Topic, &found.Body, &ttl, &due, &found.Attempts, &found.MaxAttempts, &found.Error, &found.Reason, &found.Token); err != nil {
		return Found{}, errReply("get", reply)
	}
	found.TTL = lifetime(ttl)
	if due != "" {
		found.Due, err = scoreTime(due)
	}
	return found, err
}

// lifetime is what PTTL said; -1 is no limit.
func lifetime(pttl int64) time.Duration {
	if pttl < 0 {
		return -1
	}
	return time.Duration(pttl) * time.Millisecond
}

// scoreTime is the due time that a score stands for, to the microsecond; a
// score beyond what time.Time can tell becomes the last or first millisecond that JSON can.
func scoreTime(score string) (time.Time, error) {
	seconds, err := strconv.ParseFloat(score, 64)
	if err != nil {
		return time.Time{}, err
	}
	const last, first = 253402300799.999, -62135596800
	return time.UnixMicro(int64(math.Round(max(min(seconds, last), first) * 1e6))), nil
}
