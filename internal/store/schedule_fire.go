package store

import (
	"cmp"
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Firing is a server's decision about a due schedule.
type Firing struct {
	Scheduled              // as it was read
	Unknown      bool      // its occurrences can't be computed: it is deferred
	Upcoming     time.Time // its next occurrence; zero at the end
	Late, Paused int       // numbers of occurrences without a job
	Occurrences  []FiredOccurrence
}

// FiredOccurrence is an occurrence that has passed, and its job, if it has one.
type FiredOccurrence struct {
	At   time.Time
	What string    // OccurrenceRan, OccurrenceLate or OccurrencePaused
	Due  time.Time // when its job is
}

// FiredAll is the result of a Fire.
type FiredAll struct {
	Fired       []Fired // of the first firings, at least one: a call that runs out of time leaves the rest to another
	CantPublish error   // why no waiter could be woken
	Woken       bool    // one was
}

// Fired is the result of a Firing.
type Fired struct {
	Done            bool // false: the schedule was fired, changed or removed meanwhile
	Ran, Overlapped int
	Followed        string // the job that the last occurrence's job follows, under the same ID; empty if none
	Refused         error  // why it could not be fired: it was deferred
}

// Fire fires due schedules, as many as fit into this time of Redis. Those that can't be fired are due from retry on, ten in each ms.
func (s *Store) Fire(firings []Firing, retry time.Time, within time.Duration) *Call[FiredAll] {
	args := append(arguments(2+12*len(firings), s.jobPool), retry.UnixMilli(), within.Microseconds())
	for _, f := range firings {
		upcoming := millisOf(f.Upcoming)
		if f.Unknown {
			upcoming = "later"
		}
		args = append(args, f.ID, f.Revision, millisOf(f.Next), upcoming, f.Late, f.Paused, len(f.Old) > 0, len(f.Occurrences))
		for _, m := range f.Occurrences {
			args = append(args, m.At.UnixMilli(), m.What, OccurrenceID(f.Name, m.At), m.Due.UnixMilli())
		}
	}
	return newCall(s, fireScript, args, func(reply any) (all FiredAll, err error) {
		var why string
		rest, err := scan(reply, &why)
		if all.Woken = why == "woken"; !all.Woken {
			all.CantPublish = reason(why)
		}
		for _, one := range rest {
			fired, failed := firedOf(one)
			all.Fired, err = append(all.Fired, fired), cmp.Or(err, failed)
		}
		if len(all.Fired) > len(firings) {
			err = errUnreadable
		}
		return all, err
	})
}

func firedOf(reply any) (f Fired, err error) {
	var what int
	rest, err := scan(reply, &what)
	if err != nil {
		return f, err
	}
	switch what {
	case 1:
		f.Done = true
		_, err = redis.Scan(rest, &f.Ran, &f.Overlapped, &f.Followed)
	case 2:
		var why string
		_, err = redis.Scan(rest, &why)
		f.Refused = reason(why)
	}
	return f, err
}

// Repaired is the result of a RepairSchedules.
type Repaired struct {
	All   int // number of schedules
	Last  string
	Names []string // schedules put back into the pool
}

// RepairSchedules returns schedules to the pool that a server without schedules has moved. It reads the next ones after that name, unless
// the topic's queue shows that none was moved; with all it always reads them.
func (s *Store) RepairSchedules(ctx context.Context, behind string, all bool) (Repaired, error) {
	which := "moved"
	if all {
		which = "all"
	}
	args := append(arguments(3, s.jobPool), behind, SchedulesPage, which)
	return newCall(s, repairSchedulesScript, args, func(reply any) (m Repaired, err error) {
		rest, err := scan(reply, &m.All, &m.Last)
		if err == nil {
			m.Names, err = redis.Strings(rest, nil)
		}
		return m, err
	}).Do(ctx)
}
