package store

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	rescheduleScript = newScript("reschedule")
	removeScript     = newScript("remove")
	getScript        = newScript("get")
)

// Reschedule gives the job a new delay.
func (s *Store) Reschedule(ctx context.Context, id string, delay time.Duration) error {
	args := append(arguments(2, s.jobPool, s.keys.JobBucket(id)), id, milliseconds(delay))
	errs, err := newCall(s, rescheduleScript, args, isFound).Do(ctx)
	if err != nil {
		return err
	}
	return errs[0]
}

// Remove deletes jobs, at most 1,000 and no ID twice; nobody gets them any more. The answer has an error for each: ErrNotFound if there is
// none of the ID; ErrLater, never of the first one, if it is for another call.
func (s *Store) Remove(ids ...string) *Call[[]error] {
	args := arguments(3*len(ids), s.jobPool)
	for _, id := range ids {
		args = append(args, s.keys.JobBucket(id), s.keys.DeadLetter(id))
	}
	args[1] = 1 + 2*len(ids)
	args = appendAll(args, ids)
	return newCall(s, removeScript, args, func(reply any) ([]error, error) {
		return errorsAt(reply, len(ids))
	})
}

// isFound reads whether there was a job: 1, or 0.
func isFound(reply any) ([]error, error) {
	found, err := redis.Bool(reply, nil)
	if found {
		return []error{nil}, err
	}
	return []error{ErrNotFound}, err
}

// JobInfo is what Get knows of a job.
type JobInfo struct {
	Job
	State       string        // waiting, ready, reserved or dead
	Due         time.Time     // when it is due, its lease ends, or it was buried; zero if it is ready
	TTL         time.Duration // until Redis drops the job; -1 if never
	Attempts    int
	MaxAttempts int           // 0 if the job doesn't say
	Error       string        // of the last attempt, if one is known
	Reason      string        // why it is dead
	Token       int64         // of the last reserve
	TTR         time.Duration // for how long it is reserved; 0 if the job doesn't say
	Followed    bool          // another one takes its place when it is done
}

// Get reads the job.
func (s *Store) Get(ctx context.Context, id string) (JobInfo, error) {
	k := s.keys
	args := append(arguments(1, k.JobPool(), k.JobBucket(id), k.DeadLetter(id)), id)
	found, err := newCall(s, getScript, args, foundOf).Do(ctx)
	if err == nil && found.State == "" {
		return JobInfo{}, ErrNotFound
	}
	found.ID = id
	return found, err
}

// foundOf reads get.lua's answer, which is empty if there is no job.
func foundOf(reply any) (found JobInfo, err error) {
	fields, err := redis.Values(reply, nil)
	if err != nil || len(fields) == 0 {
		return JobInfo{}, err
	}
	var ttl, ttr int64
	var due string
	if _, err := redis.Scan(fields, &found.State, &found.Topic, &found.Body, &ttl, &due, &found.Attempts, &found.MaxAttempts, &found.Error, &found.Reason, &found.Token, &ttr, &found.Followed); err != nil {
		return JobInfo{}, err
	}
	found.TTL, found.TTR = optional(ttl), time.Duration(ttr)*time.Millisecond
	if due != "" {
		found.Due, err = scoreTime(due)
	}
	return found, err
}

// optional is so many milliseconds as a script says them, -1 is none.
func optional(ms int64) time.Duration {
	if ms < 0 {
		return -1
	}
	return time.Duration(ms) * time.Millisecond
}

// scoreTime is the due time that a score stands for, to the microsecond; a
// score beyond what time.Time can tell becomes the last or first millisecond that JSON can.
func scoreTime(score string) (time.Time, error) {
	seconds, err := strconv.ParseFloat(score, 64)
	if err != nil {
		return time.Time{}, err
	}
	return secondsTime(seconds), nil
}

func secondsTime(seconds float64) time.Time {
	const last, first = 253402300799.999, -62135596800
	return time.UnixMicro(int64(math.Round(max(min(seconds, last), first) * 1e6)))
}
