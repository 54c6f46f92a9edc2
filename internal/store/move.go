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

// IDs are job IDs as they came from Redis ([]byte each) and go back to it.
type IDs []any

// Batch is some due jobs of one topic, in due order.
type Batch struct {
	Topic string
	IDs   IDs
	Fresh bool // see Query
}

// Counts are numbers of due jobs: of the backlog, and of the fresh ones.
type Counts struct {
	Backlog, Fresh int
}

// Plus is the sum of both.
func (c Counts) Plus(other Counts) Counts {
	return Counts{c.Backlog + other.Backlog, c.Fresh + other.Fresh}
}

// Total is how many that are in all.
func (c Counts) Total() int { return c.Backlog + c.Fresh }

// Query says which due jobs are asked for.
type Query struct {
	// Limit is how many at most.
	Limit int
	// Since divides them: the backlog was due by then, the fresh ones fell due
	// later. It is a DueJobs.Now; zero means that all are backlog.
	Since time.Time
	// Skip is how many of the first jobs of either kind are left out.
	Skip Counts
	// AtOnce is up to how many due jobs are moved by the look-up itself, if all are backlog and
	// none is skipped. Those that a ready queue can't take are due from Retry on then, see Move.
	AtOnce int
	Retry  time.Time
}

// DueJobs is what came of a Query.
type DueJobs struct {
	Batches []Batch       // the fresh ones first
	Moved   []Moved       // instead, if the look-up has moved them; it moves no schedules
	Orphans IDs           // due, but without a bucket that can be used
	Count   Counts        // how many jobs that are
	Limit   int           // how many were asked for
	More    bool          // more jobs are due
	Now     time.Time     // by Redis's clock
	Next    time.Duration // from Now until the next falls due; -1 if none is known
	Took    time.Duration // Redis's time; 0 if unknown
}

// Moved is what became of a Batch.
type Moved struct {
	Batch                     // those that are ready now
	Lapsed      int           // how many of these were leases that had ended
	Late        Lateness      // of these
	Skipped     int           // how many had left the pool or were scheduled anew
	PutBack     int           // how many the ready queue could not take; they are due later now
	Refused     error         // why
	CantPublish error         // why no waiter could be woken
	Woken       bool          // one was
	Took        time.Duration // Redis's time; 0 if unknown, or for less than MinTimed jobs
}

// MinTimed is how many jobs a batch must have for Redis to take the time.
const MinTimed = 64

// Dropped is what became of orphans.
type Dropped struct {
	IDs     IDs   // those that are out of the pool now
	PutBack IDs   // those whose bucket can't be read; they are due later now
	Refused error // why
}

// Due asks for due jobs.
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

// Move moves a batch to its topic's ready queue, except for jobs that were
// scheduled anew since found, which is the DueJobs.Now of the batch. If the
// queue can't take them they are put back, due from retry on, by Redis's clock,
// in whole milliseconds and ten in each. Their lateness is what now, about Redis's time at
// the move, is behind their due times.
func (s *Store) Move(b Batch, found, now, retry time.Time) *Call[Moved] {
	args := append(arguments(4+len(b.IDs), s.jobPool), b.Topic, unixSeconds(found), now.Sub(found).Microseconds(), retry.UnixMilli())
	return newCall(s, moveScript, append(args, b.IDs...), func(reply any) (Moved, error) { return movedOf(b, reply) })
}

// Drop takes those orphans out of the pool that still are orphans. Those whose
// bucket this user can't read are put back as Move does.
func (s *Store) Drop(orphans IDs, found, retry time.Time) *Call[Dropped] {
	args := append(arguments(2+len(orphans), s.jobPool), unixSeconds(found), retry.UnixMilli())
	return newCall(s, dropScript, append(args, orphans...), droppedOf)
}

// Rehearse asks whether a job of that name and topic, which should not exist,
// could be moved, and a waiter woken for it. It changes nothing. The error is why it could not be moved, as far as this Redis can tell.
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

// Rehearsal is what this Redis user may do beside moving jobs.
type Rehearsal struct {
	CantPublish error  // why no waiter could be woken
	Policy      string // Redis's maxmemory-policy; empty if this user may not know
	Lacking     []Lack // what keeps further features from working, as far as this Redis can tell
}

// Lack is a command that this user may not run, and a feature that needs it.
type Lack struct{ Feature, Command string }

// unixSeconds is a time as a score, exact to the microsecond as Redis's clock is.
func unixSeconds(t time.Time) string {
	score := strconv.AppendInt(make([]byte, 0, 20), t.Unix(), 10)
	point := len(score)
	score = strconv.AppendInt(score, int64(1e6+t.Nanosecond()/1000), 10) // a 1 and six digits
	score[point] = '.'
	return string(score)
}

// timeOf is the time that unixSeconds has written.
func timeOf(score string) (time.Time, error) {
	whole, fraction, _ := strings.Cut(score, ".")
	sec, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return time.Time{}, err
	}
	micro, err := strconv.ParseInt(fraction, 10, 64)
	return time.Unix(sec, micro*1000), err
}

// reason is Redis's reason for what it did not do, nil if there is none.
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

// enterMoved reads what due.lua says of each batch if it has moved them.
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

// add appends the batches of one part of due.lua's answer, and returns how many
// jobs it has.
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

// without is ids less those at the given 1-based, rising places.
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
