package store

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/gomodule/redigo/redis"
)

var (
	membersScript       = newScript("members")
	setAsideScript      = newScript("put_in_transit")
	setAsideReadyScript = newScript("put_ready_in_transit")
	adoptScript         = newScript("adopt")
	letGoScript         = newScript("end_transit")
)

// Aside is a batch of jobs that are set aside in one partition, on their way to others. There is one at a time. Whoever
// meets it may finish it: the partitions that they go to adopt it, each its jobs, and then it is let go. It has a serial number that
// grows from batch to batch, so that a partition knows what it has adopted. So each of these steps may be done any number of times,
// by any number of programs.
type Aside struct {
	Serial   int64 // 0 if nothing is set aside
	WasThere bool  // it is another one than was asked for, which has to be finished first
	LookedAt int   // of what was asked for
	Reserved []int // the places, from 0 on, of IDs whose jobs stay, because they are reserved
	Jobs     []AsideJob
}

// AsideJob is a job that is set aside, as Redis tells it and is told.
type AsideJob struct {
	ID       string
	kind, at string
	place    int // of one that was ready, in their order
	ttl      int64
	fields   []any
}

// SetAside sets the jobs and dead letters of these IDs aside, 1,000 at most; with none it only tells what is set aside. Those that are
// reserved stay, unless all are meant: then their leases go with them, and whoever knows only this partition has lost them.
func (s *Store) SetAside(ids []string, all bool) *Call[Aside] {
	which := "free"
	if all {
		which = "all"
	}
	return s.setAside(ids, which)
}

// IsLeft tells which of these IDs SetAside finds something of, be it set aside already: ErrExists.
func (s *Store) IsLeft(ids []string) *Call[[]error] {
	call := s.setAside(ids, "look")
	return &Call[[]error]{call.run, func(reply any) ([]error, error) {
		aside, err := call.read(reply)
		errs := make([]error, len(ids))
		for _, place := range aside.Reserved {
			errs[place] = ErrExists
		}
		return errs, err
	}}
}

// SetAsideOf is SetAside for IDs that the key names: that of a topic's dead letters, the job pool, or Once.
func (s *Store) SetAsideOf(key string, ids []string) *Call[Aside] {
	if key == s.keys.JobPool() || key == s.keys.Once() {
		return s.setAside(ids, "free")
	}
	return s.setAside(ids, "free", key)
}

func (s *Store) setAside(ids []string, which string, letters ...string) *Call[Aside] {
	args := arguments(1+len(ids), append([]string{s.keys.JobPool()}, letters...)...)
	return newCall(s, setAsideScript, appendAll(append(args, which), ids), readAside)
}

// SetAsideReady sets jobs aside that are among the next ones of a ready queue, or a PausedQueue, some of which stay, 1,000 in all. Those go to the
// end of the queue.
func (s *Store) SetAsideReady(queue string, leave, stay []string) *Call[Aside] {
	args := append(arguments(1+len(leave)+len(stay), s.jobPool, queue), len(leave))
	return newCall(s, setAsideReadyScript, appendAll(appendAll(args, leave), stay), readAside)
}

func readAside(reply any) (a Aside, err error) {
	var reserved []int
	rest, err := scan(reply, &a.Serial, &a.WasThere, &a.LookedAt, &reserved)
	if err != nil {
		return Aside{}, err
	}
	for _, place := range reserved {
		a.Reserved = append(a.Reserved, place-1)
	}
	for _, told := range rest {
		var j AsideJob
		list, err := redis.Values(told, nil)
		if err == nil {
			_, err = redis.Scan(list, &j.kind, &j.ID, &j.at, &j.ttl, &j.fields)
		}
		if err == nil && j.kind == "r" {
			j.place, err = strconv.Atoi(j.at)
		}
		if err != nil {
			return Aside{}, err
		}
		a.Jobs = append(a.Jobs, j)
	}
	slices.SortStableFunc(a.Jobs, func(a, b AsideJob) int { return cmp.Compare(a.place, b.place) })
	return a, nil
}

// Adopted is how many jobs of a batch were stored, and how many were not, as a later one of the same ID was there.
type Adopted struct {
	Stored, Superseded int
	Last               int64 // the serial number of the last batch from there
}

// Adopt stores jobs of a batch that is set aside in another partition.
func (s *Store) Adopt(from *Store, serial int64, jobs []AsideJob) *Call[Adopted] {
	args := append(arguments(2+9*len(jobs), s.jobPool), from.keys.prefix, strconv.FormatInt(serial, 10))
	for _, j := range jobs {
		args = append(append(args, j.kind, j.ID, j.at, j.ttl, len(j.fields)), j.fields...)
	}
	return newCall(s, adoptScript, args, func(reply any) (a Adopted, err error) {
		_, err = scan(reply, &a.Stored, &a.Superseded, &a.Last)
		return a, err
	})
}

// CheckAdopt fails if the partition can't adopt jobs.
func (s *Store) CheckAdopt(ctx context.Context) error {
	_, err := s.Adopt(s, 0, nil).Do(ctx)
	return err
}

// LetGo drops a batch that was adopted, unless one of the partitions has a last serial number above its own. Then the batch is given
// a number above that, and the answer is true: it is to be adopted again.
func (s *Store) LetGo(serial, last int64) *Call[bool] {
	args := append(arguments(2, s.jobPool), strconv.FormatInt(serial, 10), strconv.FormatInt(last, 10))
	return newCall(s, letGoScript, args, func(reply any) (bool, error) {
		n, err := redis.Int(reply, nil)
		return n < 0, err
	})
}

// Members names some IDs of a key, and where to go on: from there, or "0" if there are no more. It begins at "0".
func (s *Store) Members(ctx context.Context, key, from string, most int) (ids []string, next string, err error) {
	args := append(arguments(2, key), from, most)
	_, err = newCall(s, membersScript, args, func(reply any) ([]any, error) { return scan(reply, &next, &ids) }).Do(ctx)
	return ids, next, err
}

// Length is how many entries a list has.
func (s *Store) Length(ctx context.Context, list string) (int, error) {
	return redis.Int(s.command(ctx, "LLEN", list))
}
