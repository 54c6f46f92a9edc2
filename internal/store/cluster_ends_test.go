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

// While a slot migrates and still has all its keys here, a script that empties a key midway either completes or changes nothing.
func TestKeysThatEndWhileASlotMoves(t *testing.T) {
	redistest.Long(t)
	c, s, slot, from, to := slotToMove(t)
	ctx := t.Context()
	job := func(id, topic string) Delayed {
		return Delayed{Job{ID: id, Topic: topic, Body: "b"}, Due{}, Terms{Lifetime: time.Hour, Policy: Replace}, nil}
	}
	push := func(t *testing.T, jobs ...Delayed) {
		t.Helper()
		errs, err := s.Push(jobs).Do(ctx)
		check(t, err)
		for _, err := range errs {
			check(t, err)
		}
	}
	reserve := func(t *testing.T, topic string) LeaseRef {
		t.Helper()
		got, err := s.Reserve(Wanted{Topics: []string{topic}, N: 1}, Reservation{Lease: time.Hour}).Do(ctx)
		check(t, err)
		return LeaseRef{topic, got.Jobs[0].ID, got.Leases[0].Token}
	}
	begin := func(t *testing.T) {
		t.Helper()
		c.BeginMove(slot, to)
	}
	end := func() {
		for _, server := range []*redistest.Server{from, to} {
			server.Do("CLUSTER", "SETSLOT", slot, "STABLE")
		}
	}
	fresh := func(t *testing.T) { t.Helper(); from.Do("FLUSHALL"); to.Do("FLUSHALL") }
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

	t.Run("push two again", func(t *testing.T) {
		fresh(t)
		push(t, job("a", "t"))
		reserve(t, "t")
		push(t, job("b", "t"), job("c", "t"))
		begin(t)
		_, err := s.Push([]Delayed{job("a", "t"), job("b", "t")}).Do(ctx)
		end()
		if b := where("b", "t"); err != nil && !slices.Equal(b, []string{"queue", "bucket"}) {
			t.Errorf("a push was refused (%v), and b, which was ready, is in %q", err, b)
		}
	})
	t.Run("retry two, one of them lost", func(t *testing.T) {
		fresh(t)
		push(t, job("a", "t"), job("c", "t"))
		held := reserve(t, "t")
		begin(t)
		_, err := s.Retry([]Returned{{LeaseRef: held}, {LeaseRef: LeaseRef{"t", "b", 1}}}).Do(ctx)
		end()
		if err != nil && !slices.Equal(where("a", "t"), []string{"pool", "bucket"}) {
			t.Errorf("a retry was refused (%v), and is done: %q is where the job is", err, where("a", "t"))
		}
		if n := from.Do("HGET", s.keys.Reserved(), "t"); n != nil && !slices.Contains(where("a", "t"), "pool") {
			t.Errorf("%s are counted as reserved, and none is", n)
		}
	})
	t.Run("retry two of a limited topic, one of them lost", func(t *testing.T) {
		fresh(t)
		check(t, s.limitTo(ctx, Limit{Concurrency: 1}))
		push(t, job("a", "t"), job("c", "t"))
		held := reserve(t, "t")
		begin(t)
		s.Retry([]Returned{{LeaseRef: held}, {LeaseRef: LeaseRef{"t", "b", 1}}}).Do(ctx) // may be refused
		end()
		slots := from.Strings("ZRANGE", s.keys.Slots("t"), 0, -1)
		if len(slots) > 0 && !slices.Contains(where("a", "t"), "pool") {
			t.Errorf("%q have slots, and no lease", slots)
		}
	})
	t.Run("bury two, one of them lost", func(t *testing.T) {
		fresh(t)
		push(t, job("a", "t"), job("c", "t"))
		held := reserve(t, "t")
		from.Do("ZADD", s.keys.DeadLetters("t"), 1, "x")
		from.Do("HSET", s.keys.DeadLetter("a"), "topic", "t", "body", "old")
		begin(t)
		_, err := s.Bury([]Burial{{LeaseRef: held, Reason: "w"}, {LeaseRef: LeaseRef{"t", "b", 1}, Reason: "w"}}).Do(ctx)
		end()
		if err != nil && !slices.Contains(where("a", "t"), "pool") {
			t.Errorf("a burial was refused (%v), and is done: %q is where the job is", err, where("a", "t"))
		}
	})
	t.Run("mend", func(t *testing.T) {
		fresh(t)
		push(t, job("a", ScheduleTopic), job("w", "t"))
		reserve(t, "t")
		from.Do("ZADD", s.keys.Schedules(), 0, "x")
		begin(t)
		_, err := s.RepairSchedules(ctx, "", true)
		end()
		if !slices.Contains(where("a", ScheduleTopic), "queue") {
			t.Errorf("a job that was ready is in %q, after %v", where("a", ScheduleTopic), err)
		}
	})
	t.Run("reserve of a limited topic without a pool", func(t *testing.T) {
		fresh(t)
		check(t, s.limitTo(ctx, Limit{Concurrency: 1}))
		push(t, job("a", "t"), job("c", "t"))
		reserve(t, "t")
		from.Do("ZADD", s.keys.Slots("t"), "1000000.123457", "a")
		from.Do("DEL", s.keys.JobPool())
		begin(t)
		for range 3 {
			s.Reserve(Wanted{Topics: []string{"t"}, N: 1}, Reservation{Lease: time.Hour}).Do(ctx)
		}
		end()
		if n := string(from.Do("HGET", s.keys.Reserved(), "t").([]byte)); n != "2199023255553" {
			t.Errorf("the number of reserved jobs has grown to %s with calls that were refused", n)
		}
	})
	t.Run("reserve of a limited topic whose slots are all free", func(t *testing.T) {
		fresh(t)
		check(t, s.limitTo(ctx, Limit{Concurrency: 1}))
		push(t, job("a", "t"))
		push(t, Delayed{Job: Job{ID: "w", Topic: "t", Body: "b"}, Due: Due{After: time.Hour}, Terms: Terms{Lifetime: 2 * time.Hour}})
		from.Do("ZADD", s.keys.Slots("t"), "1000000", "gone")
		begin(t)
		_, err := s.Reserve(Wanted{Topics: []string{"t"}, N: 1}, Reservation{Lease: time.Hour}).Do(ctx)
		end()
		slots := from.Strings("ZRANGE", s.keys.Slots("t"), 0, -1)
		if slices.Contains(where("a", "t"), "pool") && !slices.Contains(slots, "a") {
			t.Errorf("a is reserved without a slot (%v): the slots are %q", err, slots)
		}
	})
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
	for _, server := range []*redistest.Server{from, to} {
		server.Do("CLUSTER", "SETSLOT", slot, "STABLE")
	}
	left := from.Do("HGET", s.keys.Limits(), "t")
	if err != nil && left == nil {
		t.Errorf("it was refused (%v), and done", err)
	}
}
