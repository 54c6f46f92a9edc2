package store

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	pushScript       = newScript("push", "checks", "withdraw", "due_times")
	rescheduleScript = newScript("reschedule", "checks", "withdraw", "due_times")
	removeScript     = newScript("remove", "withdraw")
	getScript        = newScript("get")
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

// arg is the due time as push.lua reads it.
func (d Due) arg() string {
	if d.At.IsZero() {
		return "+" + strconv.FormatInt(milliseconds(d.After), 10)
	}
	ms := d.At.UnixMilli()
	if d.At.Nanosecond()%int(time.Millisecond) != 0 {
		ms++ // never early
	}
	return strconv.FormatInt(ms, 10)
}

// Delayed is a job to be stored.
type Delayed struct {
	Job
	Due Due
}

// Terms are what the jobs of one call have in common.
type Terms struct {
	Lifetime time.Duration // for how long a job is kept once it is ready
	Policy   Policy
	// Together stores all of the jobs or none; else it is each for itself.
	Together bool
}

// Push stores one job, to be kept for lifetime after it has become ready.
func (s *Store) Push(ctx context.Context, job Job, due Due, lifetime time.Duration, policy Policy) error {
	errs, err := s.PushBatch(ctx, []Delayed{{job, due}}, Terms{Lifetime: lifetime, Policy: policy})
	if err != nil {
		return err
	}
	return errs[0]
}

// PushBatch is PushBatches of one.
func (s *Store) PushBatch(ctx context.Context, jobs []Delayed, terms Terms) ([]error, error) {
	errs, err := s.PushBatches(ctx, [][]Delayed{jobs}, terms)
	return errs[0], err
}

// PushBatches stores batches of jobs, each in one step: at most 1,000 jobs, and no ID twice.
// For each batch it returns what kept each job from being stored, nil if nothing
// did. With Together a job is stored only if there is nothing but nil in its batch. With an
// error, which is one of the whole call, the batches for which there is nil were not
// stored, unless the answer was lost.
func (s *Store) PushBatches(ctx context.Context, batches [][]Delayed, terms Terms) ([][]error, error) {
	p, err := s.Pipeline(ctx)
	if err != nil {
		return make([][]error, len(batches)), err
	}
	defer p.Close()
	return p.PushBatches(batches, terms)
}

// window is how many of several calls are under way at a time: when Redis is
// done with one it finds the next, while the client writes and reads.
const window = 2

// PushBatches is Store's.
func (p *Pipeline) PushBatches(batches [][]Delayed, terms Terms) (results [][]error, err error) {
	results = make([][]error, len(batches))
	calls := make([]*call, 0, len(batches))
	for i := 0; i < len(batches) && (err == nil || i < len(calls)); i++ {
		for len(calls) < min(i+window, len(batches)) && err == nil {
			if err = p.ctx.Err(); err == nil {
				calls = append(calls, p.send(pushScript, p.store.pushArgs(batches[len(calls)], terms)))
				p.flush()
			}
		}
		if i == len(calls) {
			break
		}
		reply, failed := p.receive(calls[i])
		if failed == nil {
			results[i], failed = pushErrors(reply, len(batches[i]))
		}
		if err == nil {
			err = failed
		}
	}
	return results, err
}

func (s *Store) pushArgs(jobs []Delayed, terms Terms) []any {
	mode := "each"
	if terms.Together {
		mode = "all"
	}
	args := make([]any, 0, 10+4*len(jobs))
	args = append(args, nil, 1, s.keys.JobPool(), s.keys.JobBucket(""), s.keys.ReadyQueue(""), s.keys.FirstDue(),
		milliseconds(terms.Lifetime), string(terms.Policy), mode)
	for _, job := range jobs {
		args = append(args, job.ID, job.Topic, job.Body, job.Due.arg())
	}
	return args
}

// pushErrors reads push.lua's answer.
func pushErrors(reply any, jobs int) ([]error, error) {
	list, ok := reply.([]any)
	if !ok {
		return nil, errReply("push", reply)
	}
	errs := make([]error, jobs)
	for ; len(list) >= 2; list = list[2:] {
		place, _ := list[0].(int64)
		if place < 1 || int(place) > jobs {
			return nil, errReply("push", reply)
		}
		if why, ok := list[1].([]byte); ok {
			errs[place-1] = redis.Error(why)
		} else {
			errs[place-1] = ErrExists
		}
	}
	return errs, nil
}

// Reschedule gives the job a new delay.
func (s *Store) Reschedule(ctx context.Context, id string, delay time.Duration) error {
	keys := []string{s.keys.JobPool(), s.keys.JobBucket(id)}
	found, err := redis.Int(s.one(ctx, rescheduleScript, keys, id, milliseconds(delay), s.keys.ReadyQueue(""), s.keys.FirstDue()))
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
