package store

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	pushScript       = script("push", "common")
	rescheduleScript = script("reschedule", "common")
	removeScript     = script("remove", "common")
	getScript        = script("get")
)

// Job is a job's content.
type Job struct {
	ID, Topic, Body string
}

// Policy is what becomes of an ID that exists when it is pushed again.
type Policy string

// The policies that push.lua knows. The content is replaced under all but Refuse.
const (
	Replace     Policy = "replace" // the new due time
	Refuse      Policy = "refuse"  // nothing changes: ErrExists
	KeepEarlier Policy = "earlier" // the earlier of both due times
	KeepLater   Policy = "later"   // the later of both due times
)

// Due says when a job falls due: at a time, or, where that is zero, after a
// delay by Redis's clock.
type Due struct {
	After time.Duration
	At    time.Time
}

func (d Due) args() (mode string, ms int64) {
	if d.At.IsZero() {
		return "in", milliseconds(d.After)
	}
	ms = d.At.UnixMilli()
	if d.At.Nanosecond()%int(time.Millisecond) != 0 {
		ms++ // never early
	}
	return "at", ms
}

// Push stores the job, to be kept for lifetime after it has become ready.
func (s *Store) Push(ctx context.Context, job Job, due Due, lifetime time.Duration, policy Policy) error {
	mode, ms := due.args()
	keys := []string{s.keys.JobPool(), s.keys.JobBucket(job.ID), s.keys.ReadyQueue(job.Topic)}
	stored, err := redis.Int(s.run(ctx, pushScript, keys,
		job.ID, job.Topic, job.Body, mode, ms, milliseconds(lifetime), string(policy), s.keys.ReadyQueue(""), s.keys.FirstDue()))
	if err == nil && stored == 0 {
		err = ErrExists
	}
	return err
}

// Reschedule gives the job a new delay.
func (s *Store) Reschedule(ctx context.Context, id string, delay time.Duration) error {
	keys := []string{s.keys.JobPool(), s.keys.JobBucket(id)}
	found, err := redis.Int(s.run(ctx, rescheduleScript, keys, id, milliseconds(delay), s.keys.ReadyQueue(""), s.keys.FirstDue()))
	if err == nil && found == 0 {
		err = ErrNotFound
	}
	return err
}

// Remove reports whether there was a job, which nobody gets from now on.
func (s *Store) Remove(ctx context.Context, id string) (bool, error) {
	keys := []string{s.keys.JobPool(), s.keys.JobBucket(id)}
	return redis.Bool(s.run(ctx, removeScript, keys, id, s.keys.ReadyQueue("")))
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
	reply, err := redis.Values(s.run(ctx, getScript, keys, id))
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
