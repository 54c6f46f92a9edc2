package store

import (
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// slotToMove returns a store in a cluster, its slot, the master that has the slot, and another master. Calls are not retried.
func slotToMove(t *testing.T) (c *redistest.Cluster, s *Store, slot int, from, to *redistest.Server) {
	t.Helper()
	before := retryWindow
	retryWindow = 0
	t.Cleanup(func() { retryWindow = before })
	c = redistest.StartCluster(t)
	s = inCluster(t, c)[3]
	check(t, s.Ping(t.Context()))
	slot = c.Slot(s.Keys().JobPool())
	from = c.Owner(slot)
	to = c.Servers[slices.IndexFunc(c.Servers[:3], func(s *redistest.Server) bool { return s != from })]
	return c, s, slot, from, to
}

// stable ends the move of a slot.
func stable(slot int, nodes ...*redistest.Server) {
	for _, node := range nodes {
		node.Do("CLUSTER", "SETSLOT", slot, "STABLE")
	}
}

// While a slot migrates and still has all its keys here, a script that empties a key midway either completes or changes nothing.
func TestKeysThatEndWhileASlotMoves(t *testing.T) {
	redistest.Long(t)
	cluster, s, slot, from, to := slotToMove(t)
	ctx := t.Context()
	job := func(id, topic string) Delayed {
		return Delayed{Job{ID: id, Topic: topic, Body: "b"}, Due{}, Terms{Lifetime: time.Hour, Policy: Replace}, nil}
	}
	push := func(t *testing.T, jobs ...Delayed) {
		t.Helper()
		errs := made(t, s.Push(jobs))
		for _, err := range errs {
			check(t, err)
		}
	}
	reserve := func(t *testing.T, topic string) LeaseRef {
		t.Helper()
		got := made(t, s.Reserve(Wanted{Topics: []string{topic}, N: 1}, Reservation{Lease: time.Hour}))
		return LeaseRef{topic, got.Jobs[0].ID, got.Leases[0].Token}
	}
	where := func(id, topic string) (places []string) {
		if from.Do("ZSCORE", s.keys.JobPool(), id) != nil {
			places = append(places, "pool")
		}
		if slices.Contains(from.Strings("LRANGE", s.keys.ReadyQueue(topic), 0, -1), id) {
			places = append(places, "queue")
		}
		if from.Do("EXISTS", s.keys.JobBucket(id)) == int64(1) {
			places = append(places, "bucket")
		}
		if from.Do("EXISTS", s.keys.DeadLetter(id)) == int64(1) {
			places = append(places, "letter")
		}
		return places
	}

	lost := LeaseRef{"t", "b", 1}
	limit := func(t *testing.T) { check(t, s.limitTo(ctx, Limit{Concurrency: 1})) }
	take := func() error {
		return errOf(s.Reserve(Wanted{Topics: []string{"t"}, N: 1}, Reservation{Lease: time.Hour}).Do(ctx))
	}
	slots := func() []string { return from.Strings("ZRANGE", s.keys.Slots("t"), 0, -1) }
	var held LeaseRef
	for name, c := range map[string]struct {
		before func(t *testing.T)
		call   func() error
		isDone func(err error) bool // or nothing has changed
	}{
		"push two again": {func(t *testing.T) {
			push(t, job("a", "t"))
			reserve(t, "t")
			push(t, job("b", "t"), job("c", "t"))
		}, func() error { return errOf(s.Push([]Delayed{job("a", "t"), job("b", "t")}).Do(ctx)) }, func(err error) bool {
			return err == nil || slices.Equal(where("b", "t"), []string{"queue", "bucket"})
		}},
		"retry two, one of them lost": {func(t *testing.T) {
			push(t, job("a", "t"), job("c", "t"))
			held = reserve(t, "t")
		}, func() error { return errOf(s.Retry([]Returned{{LeaseRef: held}, {LeaseRef: lost}}).Do(ctx)) }, func(err error) bool {
			counted := from.Do("HGET", s.keys.Reserved(), "t") != nil
			return (err == nil || slices.Equal(where("a", "t"), []string{"pool", "bucket"})) && (!counted || slices.Contains(where("a", "t"), "pool"))
		}},
		"retry two of a limited topic, one of them lost": {func(t *testing.T) {
			limit(t)
			push(t, job("a", "t"), job("c", "t"))
			held = reserve(t, "t")
		}, func() error { return errOf(s.Retry([]Returned{{LeaseRef: held}, {LeaseRef: lost}}).Do(ctx)) }, func(error) bool {
			return len(slots()) == 0 || slices.Contains(where("a", "t"), "pool")
		}},
		"bury two, one of them lost": {func(t *testing.T) {
			push(t, job("a", "t"), job("c", "t"))
			held = reserve(t, "t")
			from.Do("ZADD", s.keys.DeadLetters("t"), 1, "x")
			from.Do("HSET", s.keys.DeadLetter("a"), "topic", "t", "body", "old")
		}, func() error {
			return errOf(s.Bury([]Burial{{LeaseRef: held, Reason: "w"}, {LeaseRef: lost, Reason: "w"}}).Do(ctx))
		}, func(err error) bool { return err == nil || slices.Contains(where("a", "t"), "pool") }},
		"repair schedules": {func(t *testing.T) {
			push(t, job("a", ScheduleTopic), job("w", "t"))
			reserve(t, "t")
			from.Do("ZADD", s.keys.Schedules(), 0, "x")
		}, func() error { return errOf(s.RepairSchedules(ctx, "", true)) }, func(error) bool {
			return slices.Contains(where("a", ScheduleTopic), "queue")
		}},
		"reserve of a limited topic without a pool": {func(t *testing.T) {
			limit(t)
			push(t, job("a", "t"), job("c", "t"))
			reserve(t, "t")
			from.Do("ZADD", s.keys.Slots("t"), "1000000.123457", "a")
			from.Do("DEL", s.keys.JobPool())
		}, func() error {
			take()
			take()
			return take()
		}, func(error) bool { // refused calls do not count
			return string(from.Do("HGET", s.keys.Reserved(), "t").([]byte)) == "2199023255553"
		}},
		"reserve of a limited topic whose slots are all free": {func(t *testing.T) {
			limit(t)
			push(t, job("a", "t"))
			push(t, Delayed{Job: Job{ID: "w", Topic: "t", Body: "b"}, Due: Due{After: time.Hour}, Terms: Terms{Lifetime: 2 * time.Hour}})
			from.Do("ZADD", s.keys.Slots("t"), "1000000", "gone")
		}, take, func(error) bool { return !slices.Contains(where("a", "t"), "pool") || slices.Contains(slots(), "a") }},
	} {
		t.Run(name, func(t *testing.T) {
			from.Do("FLUSHALL")
			to.Do("FLUSHALL")
			c.before(t)
			cluster.BeginMove(slot, to)
			err := c.call()
			stable(slot, from, to)
			if !c.isDone(err) {
				t.Errorf("done in part (%v): a is in %q, b in %q, the slots are %q", err, where("a", "t"), where("b", "t"), slots())
			}
		})
	}
}

// SetLimit either removes a limit or changes nothing while the slot migrates.
func TestLimitWhileASlotMoves(t *testing.T) {
	redistest.Long(t)
	c, s, slot, from, to := slotToMove(t)
	ctx := t.Context()
	for _, topic := range []string{"t", "u"} {
		check(t, s.SetLimit(ctx, topic, Limit{Rate: 1, Burst: 1}, wholeShare(Limit{Rate: 1, Burst: 1})))
	}
	from.Do("ZADD", s.keys.JobPool(), 99999999999, "w")
	c.BeginMove(slot, to)
	err := s.limitTo(ctx, Limit{})
	stable(slot, from, to)
	left := from.Do("HGET", s.keys.Limits(), "t")
	if err != nil && left == nil {
		t.Errorf("it was refused (%v), and done", err)
	}
}
