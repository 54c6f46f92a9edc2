package store

import (
	"cmp"
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Firing is what a schedule that is due leads to.
type Firing struct {
	Scheduled              // as it was read
	Unknown      bool      // nobody knows its moments: it is put off
	Upcoming     time.Time // its next moment; zero if there is none
	Late, Paused int       // how many moments have no job
	Occurrences  []FiredOccurrence
}

// FiredOccurrence is one that has passed, and its job, if it is to have one.
type FiredOccurrence struct {
	At   time.Time
	What string    // OccurrenceRan, OccurrenceLate or OccurrencePaused
	Due  time.Time // when its job is
}

// FiredAll is what came of a Fire.
type FiredAll struct {
	Fired       []Fired // of the first firings: a call leaves the rest to another one when its time is up, but for one firing
	CantPublish error   // why no waiter could be woken
	Woken       bool    // one was
}

// Fired is what became of a Firing.
type Fired struct {
	Done            bool // else somebody else has fired, changed or removed the schedule
	Ran, Overlapped int
	Followed        string // the job whose ID the last moment's job has, as it follows it; empty if it follows none
	Refused         error  // why it could not be fired: it is due later now
}

// Fire fires schedules that are due, as many as it can within that time of Redis. Those that can't be fired are due from retry on, ten in
// each millisecond.
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

// Repaired is what came of a RepairSchedules.
type Repaired struct {
	All   int // how many schedules there are
	Last  string
	Names []string // of those that were put back into the pool
}

// RepairSchedules puts schedules back into the pool that a server has moved which doesn't know what they are. It looks at the next ones
// behind that name, unless they are all still where they belong, for what is moved is in a queue; all has it look at them even so.
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
