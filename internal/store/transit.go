package store

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/gomodule/redigo/redis"
)

var (
	membersScript           = newScript("members")
	putInTransitScript      = newScript("put_in_transit")
	putReadyInTransitScript = newScript("put_ready_in_transit")
	adoptScript             = newScript("adopt")
	endTransitScript        = newScript("end_transit")
)

// Transit is a batch of jobs on their way from one partition to others. There is one at a time. Whoever
// meets it may finish it: the partitions that they go to adopt it, each its jobs, and then it is ended. It has a serial number that
// grows from batch to batch, so that a partition knows what it has adopted. So each of these steps may be done any number of times,
// by any number of programs.
type Transit struct {
	Serial   int64 // 0 if nothing is in transit
	WasThere bool  // it is another one than was asked for, which has to be finished first
	Read     int   // of what was asked for
	Reserved []int // the places, from 0 on, of IDs whose jobs stay, because they are reserved
	Jobs     []TransitJob
}

// TransitJob is a job in transit, as Redis tells it and is told.
type TransitJob struct {
	ID       string
	kind, at string
	place    int // of one that was ready, in their order
	ttl      int64
	fields   []any
}

// PutInTransit puts the jobs and dead letters of these IDs in transit, 1,000 at most; with none it only tells what is. Those that are
// reserved stay, unless all are meant: then their leases go with them, and whoever knows only this partition has lost them.
func (s *Store) PutInTransit(ids []string, all bool) *Call[Transit] {
	which := "free"
	if all {
		which = "all"
	}
	return s.putInTransit(ids, which)
}

// IsLeft tells which of these IDs PutInTransit finds something of, even in transit already: ErrExists.
func (s *Store) IsLeft(ids []string) *Call[[]error] {
	call := s.putInTransit(ids, "look")
	return &Call[[]error]{call.run, func(reply any) ([]error, error) {
		transit, err := call.read(reply)
		errs := make([]error, len(ids))
		for _, place := range transit.Reserved {
			errs[place] = ErrExists
		}
		return errs, err
	}}
}

// PutInTransitOf is PutInTransit for IDs that the key names: that of a topic's dead letters, the job pool, or Once.
func (s *Store) PutInTransitOf(key string, ids []string) *Call[Transit] {
	if key == s.keys.JobPool() || key == s.keys.Once() {
		return s.putInTransit(ids, "free")
	}
	return s.putInTransit(ids, "free", key)
}

func (s *Store) putInTransit(ids []string, which string, letters ...string) *Call[Transit] {
	args := arguments(1+len(ids), append([]string{s.keys.JobPool()}, letters...)...)
	return newCall(s, putInTransitScript, appendAll(append(args, which), ids), readTransit)
}

// PutReadyInTransit puts jobs in transit that are among the next ones of a ready queue, or a PausedQueue, some of which stay, 1,000 in all. Those go to the
// end of the queue.
func (s *Store) PutReadyInTransit(queue string, leave, stay []string) *Call[Transit] {
	args := append(arguments(1+len(leave)+len(stay), s.jobPool, queue), len(leave))
	return newCall(s, putReadyInTransitScript, appendAll(appendAll(args, leave), stay), readTransit)
}

func readTransit(reply any) (a Transit, err error) {
	var reserved []int
	rest, err := scan(reply, &a.Serial, &a.WasThere, &a.Read, &reserved)
	if err != nil {
		return Transit{}, err
	}
	for _, place := range reserved {
		a.Reserved = append(a.Reserved, place-1)
	}
	for _, told := range rest {
		var j TransitJob
		list, err := redis.Values(told, nil)
		if err == nil {
			_, err = redis.Scan(list, &j.kind, &j.ID, &j.at, &j.ttl, &j.fields)
		}
		if err == nil && j.kind == "r" {
			j.place, err = strconv.Atoi(j.at)
		}
		if err != nil {
			return Transit{}, err
		}
		a.Jobs = append(a.Jobs, j)
	}
	slices.SortStableFunc(a.Jobs, func(a, b TransitJob) int { return cmp.Compare(a.place, b.place) })
	return a, nil
}

// Adopted is how many jobs of a batch were stored, and how many were not, as a later one of the same ID was there.
type Adopted struct {
	Stored, Superseded int
	Last               int64 // the serial number of the last batch from there
}

// Adopt stores jobs of a batch that is in transit from another partition.
func (s *Store) Adopt(from *Store, serial int64, jobs []TransitJob) *Call[Adopted] {
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

// EndTransit drops a batch that was adopted, unless one of the partitions has a last serial number above its own. Then the batch is given
// a number above that, and the answer is true: it is to be adopted again.
func (s *Store) EndTransit(serial, last int64) *Call[bool] {
	args := append(arguments(2, s.jobPool), strconv.FormatInt(serial, 10), strconv.FormatInt(last, 10))
	return newCall(s, endTransitScript, args, func(reply any) (bool, error) {
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
