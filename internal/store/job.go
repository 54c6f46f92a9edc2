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
	keys := []string{s.keys.JobPool(), s.keys.JobBucket(id)}
	found, err := redis.Int(s.one(ctx, rescheduleScript, keys, id, milliseconds(delay)))
	if err == nil && found == 0 {
		err = ErrNotFound
	}
	return err
}

// Remove takes jobs out, with a call for each: others are served in between. Of each it
// tells whether there was a job, which nobody gets from now on, and the error.
func (p *Pipeline) Remove(ids []string) (removed []bool, errs []error) {
	k := p.store.keys
	calls := make([]*call, len(ids))
	for i, id := range ids {
		keys := []string{k.JobPool(), k.JobBucket(id), k.DeadLetter(id)}
		calls[i] = p.send(removeScript, removeScript.args(keys, id))
	}
	removed, errs = make([]bool, len(ids)), make([]error, len(ids))
	for i, c := range calls {
		removed[i], errs[i] = redis.Bool(p.receive(c))
	}
	return removed, errs
}

// Found is what Get knows of a job.
type Found struct {
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
	var ttl, ttr int64
	var due string
	if _, err := redis.Scan(reply, &found.State, &found.Topic, &found.Body, &ttl, &due, &found.Attempts, &found.MaxAttempts, &found.Error, &found.Reason, &found.Token, &ttr); err != nil {
		return Found{}, errReply("get", reply)
	}
	found.TTL, found.TTR = known(ttl), time.Duration(ttr)*time.Millisecond
	if due != "" {
		found.Due, err = scoreTime(due)
	}
	return found, err
}

// known is so many milliseconds as a script says them, where -1 is none that is known.
func known(ms int64) time.Duration {
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
