package store

import (
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	dueScript      = newScript("due")
	moveScript     = newScript("move")
	dropScript     = newScript("drop")
	rehearseScript = newScript("rehearse")
)

// IDs are job IDs as Redis returned them ([]byte each), for further calls.
type IDs []any

// Batch is some due jobs of one topic, in due order.
type Batch struct {
	Topic string
	IDs   IDs
	Fresh bool // see Query
}

// Counts are numbers of due jobs.
type Counts struct {
	Backlog, Fresh int
}

func (c Counts) Plus(other Counts) Counts {
	return Counts{c.Backlog + other.Backlog, c.Fresh + other.Fresh}
}

func (c Counts) Total() int { return c.Backlog + c.Fresh }

// Query selects due jobs.
type Query struct {
	// Limit is the maximum number of jobs.
	Limit int
	// Since is a DueJobs.Now: jobs that were due by then are the backlog, later ones are fresh. Zero means that all are backlog.
	Since time.Time
	// Skip is the number of first jobs of each kind to skip.
	Skip Counts
	// AtOnce is the maximum number of due jobs that the query itself moves, provided that all are backlog and none is skipped. Jobs that
	// a ready queue refuses are due again from Retry on, see Move.
	AtOnce int
	Retry  time.Time
}

// DueJobs is the result of a Query.
type DueJobs struct {
	Batches []Batch       // the fresh ones first
	Moved   []Moved       // jobs that the query has moved itself; never schedules
	Orphans IDs           // due, but without a usable bucket
	Count   Counts        // number of due jobs read
	Limit   int           // of the Query
	More    bool          // more jobs are due
	Now     time.Time     // by Redis's clock
	Next    time.Duration // from Now until the next is due; -1 if unknown
	Took    time.Duration // Redis's time; 0 if unknown
}

// Moved is the result of moving a Batch.
type Moved struct {
	Batch                     // the jobs that are ready now
	Lapsed      int           // number of these with expired leases
	Late        Lateness      // of these
	Skipped     int           // number of jobs that had left the pool or were rescheduled
	PutBack     int           // number of jobs that the queue refused; they are due later
	Refused     error         // the reason
	CantPublish error         // why no waiter could be woken
	Woken       bool          // a waiter was woken
	Took        time.Duration // Redis's time; 0 if unknown, or for less than MinTimed jobs
}

// MinTimed is the minimum size of a batch for Redis to measure the time.
const MinTimed = 64

// Dropped is the result of dropping orphans.
type Dropped struct {
	IDs     IDs   // IDs that have left the pool
	PutBack IDs   // IDs whose bucket can't be read; they are due later
	Refused error // the reason
}

// Due finds due jobs.
func (s *Store) Due(q Query) *Call[DueJobs] {
	since := ""
	if !q.Since.IsZero() {
		since = unixSeconds(q.Since)
	}
	args := append(arguments(6, s.jobPool), q.Limit, since, q.Skip.Backlog, q.Skip.Fresh)
	if q.AtOnce > 0 {
		args = append(args, q.AtOnce, q.Retry.UnixMilli())
	}
	return newCall(s, dueScript, args, func(reply any) (DueJobs, error) { return dueJobsOf(q, reply) })
}

// Move moves a batch to its topic's ready queue, except jobs that were rescheduled after found, the DueJobs.Now of the batch. If the
// queue refuses them, they stay in the pool, due from retry on, ten in each ms of Redis's clock. Lateness counts up to now, which is
// about Redis's time.
func (s *Store) Move(b Batch, found, now, retry time.Time) *Call[Moved] {
	args := append(arguments(4+len(b.IDs), s.jobPool), b.Topic, unixSeconds(found), now.Sub(found).Microseconds(), retry.UnixMilli())
	return newCall(s, moveScript, append(args, b.IDs...), func(reply any) (Moved, error) { return movedOf(b, reply) })
}

// Drop removes orphans from the pool if they still are orphans. Those whose bucket this user can't read are deferred as in Move.
func (s *Store) Drop(orphans IDs, found, retry time.Time) *Call[Dropped] {
	args := append(arguments(2+len(orphans), s.jobPool), unixSeconds(found), retry.UnixMilli())
	return newCall(s, dropScript, append(args, orphans...), droppedOf)
}

// Rehearse checks whether a job of this name and topic, which should not exist, could be moved, and a waiter woken for it. It changes
// nothing. The error is the reason why the job could not be moved, as far as this Redis can tell.
func (s *Store) Rehearse(name string) *Call[Rehearsal] {
	k := s.keys
	args := append(arguments(1, k.JobPool(), k.ReadyQueue(name), k.JobBucket(name)), name)
	return newCall(s, rehearseScript, args, func(reply any) (r Rehearsal, err error) {
		var why string
		lacking, err := scan(reply, &why, &r.Policy)
		r.CantPublish = reason(why)
		for err == nil && len(lacking) > 0 {
			var l Lack
			if lacking, err = redis.Scan(lacking, &l.Feature, &l.Command); err == nil {
				r.Lacking = append(r.Lacking, l)
			}
		}
		return r, err
	})
}

// Rehearsal lists the permissions of this Redis user apart from moving jobs.
type Rehearsal struct {
	CantPublish error  // why no waiter could be woken
	Policy      string // Redis's maxmemory-policy; empty if this user may not know
	Lacking     []Lack // commands that features lack, as far as this Redis can tell
}

// Lack is a command that a feature needs and this user may not run.
type Lack struct{ Feature, Command string }

// unixSeconds formats a time as a score, exact to the microsecond as Redis's clock is.
func unixSeconds(t time.Time) string {
	score := strconv.AppendInt(make([]byte, 0, 20), t.Unix(), 10)
	point := len(score)
	score = strconv.AppendInt(score, int64(1e6+t.Nanosecond()/1000), 10) // a 1 and six digits
	score[point] = '.'
	return string(score)
}

// timeOf parses the text of unixSeconds.
func timeOf(score string) (time.Time, error) {
	whole, fraction, _ := strings.Cut(score, ".")
	sec, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	micro, err := strconv.ParseInt(fraction, 10, 64)
	return time.Unix(sec, micro*1000), err
}

// reason returns Redis's reason as an error; nil if it is empty.
func reason(text string) error {
	if text == "" {
		return nil
	}
	return redis.Error(text)
}

func dueJobsOf(q Query, reply any) (DueJobs, error) {
	var took, wait int64
	var due int
	var now string
	rest, err := scan(reply, &took, &now, &due, &wait)
	if err != nil || len(rest) != 4 {
		return DueJobs{}, errUnreadable
	}
	d := DueJobs{Limit: q.Limit}
	if d.Now, err = timeOf(now); err != nil {
		return DueJobs{}, err
	}
	d.Took = time.Duration(took) * time.Microsecond
	d.Next = max(time.Duration(wait)*time.Microsecond, -1)
	d.Orphans, _ = rest[0].([]any)
	d.Count.Fresh = d.add(rest[1], true)
	d.Count.Backlog = d.add(rest[2], false)
	d.More = due > q.Skip.Plus(d.Count).Total()
	return d, d.readMoved(rest[3])
}

// readMoved reads the results of due.lua's moves, if it has moved the batches.
func (d *DueJobs) readMoved(part any) error {
	replies, _ := part.([]any)
	if len(replies) == 0 {
		return nil
	}
	if len(replies) != len(d.Batches) {
		return errUnreadable
	}
	batches := d.Batches
	d.Batches, d.Count = nil, Counts{}
	for i, reply := range replies {
		if list, _ := reply.([]any); len(list) == 0 { // of schedules
			d.Batches, d.Count.Backlog = append(d.Batches, batches[i]), d.Count.Backlog+len(batches[i].IDs)
			continue
		}
		moved, err := movedOf(batches[i], reply)
		if err != nil {
			return err
		}
		d.Moved = append(d.Moved, moved)
	}
	return nil
}

// add appends the batches of one part of due.lua's reply, and returns the number of entries read for them.
func (d *DueJobs) add(part any, fresh bool) (count int) {
	found, _ := part.([]any)
	if len(found) == 0 {
		return 0
	}
	n, _ := found[0].(int64)
	for found = found[1:]; len(found) >= 2; found = found[2:] {
		topic, _ := found[0].([]byte)
		ids, _ := found[1].([]any)
		d.Batches = append(d.Batches, Batch{string(topic), ids, fresh})
	}
	return int(n)
}

func movedOf(b Batch, reply any) (Moved, error) {
	var took, late int64
	var why string
	var n int
	m := Moved{Batch: b}
	rest, err := scan(reply, &took, &m.PutBack, &why, &late, &n)
	if err != nil || n < 0 || len(rest) < n {
		return Moved{}, errUnreadable
	}
	more, left := rest[:n], rest[n:]
	m.Took = time.Duration(took) * time.Microsecond
	m.Skipped = len(left)
	if m.PutBack > 0 {
		m.IDs, m.Refused = nil, reason(why)
		return m, nil
	}
	if m.Woken = why == "woken"; !m.Woken && why != "" {
		m.CantPublish = redis.Error(why)
	}
	if len(left) > 0 {
		m.IDs = without(b.IDs, left)
	}
	m.Late, m.Lapsed = latenessOf(len(m.IDs), late, more)
	return m, nil
}

// without returns ids except those at the 1-based, rising positions.
func without(ids IDs, places []any) IDs {
	rest := make(IDs, 0, len(ids))
	for i, id := range ids {
		if len(places) > 0 && places[0] == int64(i+1) {
			places = places[1:]
			continue
		}
		rest = append(rest, id)
	}
	return rest
}

func droppedOf(reply any) (d Dropped, err error) {
	values, err := redis.Values(reply, nil)
	if err != nil || len(values) != 3 {
		return Dropped{}, errUnreadable
	}
	d.IDs, _ = values[0].([]any)
	d.PutBack, _ = values[1].([]any)
	why, _ := values[2].([]byte)
	d.Refused = reason(string(why))
	return d, nil
}
