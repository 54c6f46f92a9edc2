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

// Transit is a batch of jobs in transit from one partition to others. A partition has one batch at a time. Any program may finish it:
// each of the other partitions adopts its jobs, then the batch is ended. Serial numbers rise from batch to batch, so a partition knows
// which batches it has adopted, and any number of programs may repeat each step.
type Transit struct {
	Serial   int64 // 0 if nothing is in transit
	WasThere bool  // an earlier batch, which must be finished first
	Read     int   // number of IDs or entries read
	Reserved []int // positions, from 0 on, of IDs whose jobs stay because they are reserved
	Jobs     []TransitJob
}

// TransitJob is a job in transit, in the form that Redis returns and accepts.
type TransitJob struct {
	ID       string
	kind, at string
	place    int // order of the ready jobs
	ttl      int64
	fields   []any
}

// PutInTransit puts up to 1,000 jobs and dead letters in transit; with no IDs it only returns what is in transit. Reserved jobs stay, unless all
// is set: their leases then move with them, and are lost to programs that know only this partition.
func (s *Store) PutInTransit(ids []string, all bool) *Call[Transit] {
	which := freeJobs
	if all {
		which = allJobs
	}
	return s.putInTransit(ids, which)
}

// IsLeft returns ErrExists for each ID that PutInTransit would find, even in transit.
func (s *Store) IsLeft(ids []string) *Call[[]error] {
	call := s.putInTransit(ids, lookOnly)
	return &Call[[]error]{call.run, func(reply any) ([]error, error) {
		transit, err := call.read(reply)
		errs := make([]error, len(ids))
		for _, place := range transit.Reserved {
			errs[place] = ErrExists
		}
		return errs, err
	}}
}

// PutInTransitOf is PutInTransit for IDs of this key: a topic's dead letters, the job pool, or Once.
func (s *Store) PutInTransitOf(key string, ids []string) *Call[Transit] {
	if key == s.keys.JobPool() || key == s.keys.Once() {
		return s.putInTransit(ids, freeJobs)
	}
	return s.putInTransit(ids, freeJobs, key)
}

func (s *Store) putInTransit(ids []string, which string, letters ...string) *Call[Transit] {
	args := arguments(1+len(ids), append([]string{s.keys.JobPool()}, letters...)...)
	return newCall(s, putInTransitScript, appendAll(append(args, which), ids), readTransit)
}

// PutReadyInTransit puts jobs in transit that are among the next ones of a ready queue, or a PausedQueue. The jobs that stay move to its
// end. Both together are up to 1,000.
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

// Adopted is the number of jobs of a batch that were stored, and of those that were not, because the ID has a later job.
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

// EndTransit deletes an adopted batch. If last, from one of the partitions, is above its serial number, it gives the batch a higher
// number and returns true: it must be adopted again.
func (s *Store) EndTransit(serial, last int64) *Call[bool] {
	args := append(arguments(2, s.jobPool), strconv.FormatInt(serial, 10), strconv.FormatInt(last, 10))
	return newCall(s, endTransitScript, args, func(reply any) (bool, error) {
		n, err := redis.Int(reply, nil)
		return n < 0, err
	})
}

// Members returns some IDs of a key, and the start of the next call, "0" at the end. The first call starts at "0".
func (s *Store) Members(ctx context.Context, key, from string, most int) (ids []string, next string, err error) {
	args := append(arguments(2, key), from, most)
	_, err = newCall(s, membersScript, args, func(reply any) ([]any, error) { return scan(reply, &next, &ids) }).Do(ctx)
	return ids, next, err
}

// Length returns the length of a list.
func (s *Store) Length(ctx context.Context, list string) (int, error) {
	return redis.Int(s.command(ctx, "LLEN", list))
}
