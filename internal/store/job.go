package store

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	rescheduleScript = newScript("reschedule", "permitted", "queue_type", "put_back", "withdraw", "clock", "next_due", "ready")
	removeScript     = newScript("remove", "permitted", "withdraw")
	getScript        = newScript("get")
)

// Reschedule gives the job a new delay.
func (s *Store) Reschedule(ctx context.Context, id string, delay time.Duration) error {
	keys := []string{s.keys.JobPool(), s.keys.JobBucket(id)}
	found, err := redis.Int(s.one(ctx, rescheduleScript, keys, id, milliseconds(delay), s.keys.ReadyQueue(""), s.keys.FirstDue(), s.keys.Ready("")))
	if err == nil && found == 0 {
		err = ErrNotFound
	}
	return err
}

// Remove reports whether there was a job, which nobody gets from now on.
func (s *Store) Remove(ctx context.Context, id string) (bool, error) {
	keys := []string{s.keys.JobPool(), s.keys.JobBucket(id)}
	return redis.Bool(s.one(ctx, removeScript, keys, id, s.keys.ReadyQueue("")))
}

// Found is what Get knows of a job.
type Found struct {
	Job
	Waiting bool
	Due     time.Time     // of a waiting job
	TTL     time.Duration // until Redis drops the job; -1 if never
}

// Get reads the job.
func (s *Store) Get(ctx context.Context, id string) (Found, error) {
	keys := []string{s.keys.JobPool(), s.keys.JobBucket(id)}
	reply, err := redis.Values(s.one(ctx, getScript, keys, id))
	if err != nil {
		return Found{}, err
	}
	if len(reply) == 0 {
		return Found{}, ErrNotFound
	}
	found := Found{Job: Job{ID: id}}
	var ttl int64
	var score string
	if _, err := redis.Scan(reply, &found.Topic, &found.Body, &ttl, &score); err != nil {
		return Found{}, errReply("get", reply)
	}
	found.TTL = lifetime(ttl)
	if found.Waiting = score != ""; found.Waiting {
		found.Due, err = scoreTime(score)
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
