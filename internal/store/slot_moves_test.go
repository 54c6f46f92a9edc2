package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// slotMove is a store whose slot moves from one node to another.
type slotMove struct {
	*Store
	t        *testing.T
	ctx      context.Context
	cluster  *redistest.Cluster
	slot     int
	from, to *redistest.Server
	conns    map[*redistest.Server]redis.Conn
	held     []LeaseRef // of the seed; the last one is f's, if present
}

// slotCall is a call on some jobs.
type slotCall struct {
	name, uses string // the jobs that it uses
	with       string // what else it needs
	do         func() error
}

func followerOfSlot(id string) Delayed {
	f := aJob(id, "t", 0)
	f.Policy = Follow
	return f
}

func groupOfSlot(key string, most int) Delayed {
	return toGroup("t", key, "1", Group{Max: most, Longest: time.Hour})
}

// eachOf returns the error of the call or of one of its jobs.
func eachOf(errs []error, err error) error {
	for _, e := range errs {
		if OfOneSlot(e) { // retried only if the whole call was refused
			e = fmt.Errorf("told of one job: %v", e)
		}
		err = cmp.Or(err, e)
	}
	return err
}

var inADay = time.Now().Add(24 * time.Hour)

func (m *slotMove) put() error {
	daily := Schedule{Name: "s", Spec: "@daily", Zone: "UTC", Topic: "t", Body: "b", Missed: MissedOnce, Overlap: OverlapSkip, Terms: Terms{Lifetime: time.Hour}}
	_, _, err := m.PutSchedule(m.ctx, daily, inADay)
	return err
}

// seeds puts jobs in the states that the calls need: r and r2 are reserved, f is reserved and has a follower, d is dead, a and b are
// ready, w and w2 wait, o is due.
func (m *slotMove) seeds(ids ...string) {
	m.t.Helper()
	t, ctx, s, from, to := m.t, m.ctx, m.Store, m.from, m.to
	for _, server := range []*redistest.Server{from, to} {
		server.Do("FLUSHALL")
	}
	m.held = nil
	push := func(id, topic string, after time.Duration) {
		if slices.Contains(ids, id) {
			check(t, eachOf(s.Push([]Delayed{aJob(id, topic, after)}).Do(ctx)))
		}
	}
	push("r", "t", 0)
	push("r2", "t", 0)
	push("d", "t", 0)
	push("f", "t", 0)
	got, err := s.Reserve(Wanted{Topics: []string{"t"}, N: 4}, Reservation{Lease: time.Hour}).Do(ctx)
	check(t, err)
	for i, j := range got.Jobs {
		h := LeaseRef{j.Topic, j.ID, got.Leases[i].Token}
		if m.held = append(m.held, h); j.ID == "d" {
			check(t, eachOf(s.Bury([]Burial{{LeaseRef: h, Reason: "w"}}).Do(ctx)))
		} else if j.ID == "f" {
			check(t, eachOf(s.Push([]Delayed{followerOfSlot("f")}).Do(ctx)))
		}
	}
	push("a", "t", 0)
	push("b", "t", 0)
	push("w", "t", time.Hour)
	push("w2", "u", time.Hour)
	push("o", "t", time.Millisecond)
	for _, key := range []string{"g", "full"} {
		if slices.Contains(ids, key) {
			check(t, eachOf(s.Push([]Delayed{groupOfSlot(key, 0)}).Do(ctx)))
		}
	}
	m.seedRest(ids)
}

// seedRest adds what is not a job.
func (m *slotMove) seedRest(ids []string) {
	m.t.Helper()
	t, ctx, s, from := m.t, m.ctx, m.Store, m.from
	if slices.Contains(ids, "s") {
		check(t, m.put())
	}
	if slices.Contains(ids, "s is due") {
		from.Do("ZADD", s.Keys().JobPool(), 1000, ScheduleID("s"))
	}
	if slices.Contains(ids, "s was moved") {
		from.Do("ZREM", s.Keys().JobPool(), ScheduleID("s"))
		from.Do("LPUSH", s.Keys().ReadyQueue(ScheduleTopic), ScheduleID("s"))
	}
	if slices.Contains(ids, "limit") { // as many as there are reserved jobs
		check(t, s.limitTo(ctx, Limit{Concurrency: len(m.held)}))
	}
	if slices.Contains(ids, "pause") {
		check(t, errOf(s.Pause("t", time.Hour, "").Do(ctx)))
	}
	if slices.Contains(ids, "pause is over") {
		from.Do("HSET", s.Keys().prefix+"paused", "t", "1000 2000 0 0 ")
	}
	redistest.Until(t, "o is due", func() bool {
		due, err := redis.Int(from.Do("ZCOUNT", s.Keys().JobPool(), "-inf", fmt.Sprintf("%.6f", from.Clock())), nil)
		return err == nil && due == len(slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id != "o" && id != "s is due" }))
	})
}

func (m *slotMove) last() LeaseRef { return m.held[len(m.held)-1] }

func (m *slotMove) fire() error {
	s, ctx := m.Store, m.ctx
	read, err := s.SchedulesOf(IDs{[]byte(ScheduleID("s"))}).Do(ctx)
	if err != nil || len(read.List) == 0 {
		return err
	}
	f := Firing{Scheduled: read.List[0], Upcoming: inADay.Add(time.Hour), Occurrences: []FiredOccurrence{{inADay, OccurrenceRan, time.Unix(1000, 0)}}}
	_, err = s.Fire([]Firing{f}, time.Now().Add(time.Minute), time.Second).Do(ctx)
	return err
}

func (m *slotMove) push(jobs ...Delayed) func() error {
	return func() error { return eachOf(m.Push(jobs).Do(m.ctx)) }
}

func (m *slotMove) take(how string, w Wanted) func() error {
	return func() error { return errOf(takes[how](m.Store, w).Do(m.ctx)) }
}

func (m *slotMove) settle(verb string) func() error {
	return func() error { return eachOf(settlements[verb](m.Store, m.held[0]).Do(m.ctx)) }
}

func (m *slotMove) retry() error {
	return eachOf(m.Retry([]Returned{{LeaseRef: m.held[0]}}).Do(m.ctx))
}

func (m *slotMove) move(topic, id string) func() error {
	far := time.Now().Add(2 * time.Hour)
	return func() error {
		return errOf(m.Move(Batch{Topic: topic, IDs: IDs{[]byte(id)}}, far, far, far.Add(5*time.Second)).Do(m.ctx))
	}
}

func (m *slotMove) callsOfOperators() []slotCall {
	s, ctx := m.Store, m.ctx
	limit := func(l Limit) func() error { return func() error { return s.limitTo(ctx, l) } }
	return []slotCall{
		{"reserve at the limit", "r a", "limit", m.take("reserve", Wanted{Topics: []string{"t"}, N: 9})},
		{"ack at the limit", "r a", "limit", m.settle("ack")},
		{"push paused", "", "pause", m.push(aJob("n", "t", 0))},
		{"retry paused", "r", "pause", m.retry},
		{"limit", "a", "", limit(Limit{Concurrency: 2})},
		{"limit, a rate", "a", "limit", limit(Limit{Rate: 2})},
		{"limit, another", "a", "limit", limit(Limit{Concurrency: 5})},
		{"limit, none", "a", "limit", limit(Limit{})},
		{"pause", "w", "", func() error { return errOf(s.Pause("t", time.Hour, "").Do(ctx)) }},
		{"pause again", "w", "pause", func() error { return errOf(s.Throttle("t", time.Hour).Do(ctx)) }},
		{"resume", "w", "pause", func() error { return errOf(s.Resume("t").Do(ctx)) }},
		{"keep paused", "w", "pause, a", func() error { return errOf(s.KeepPaused("0").Do(ctx)) }},
		{"end pauses", "a", "pause, pause is over", func() error { return errOf(s.KeepPaused("0").Do(ctx)) }},
		{"restore", "", "", func() error {
			return errOf(s.Restore([]Record{{Kind: RecordReady, ID: "n", TTL: time.Hour, Fields: map[string]string{"topic": "t"}}, {Kind: RecordDead, ID: "n", At: inADay, TTL: -1, Fields: map[string]string{"topic": "t"}}}, false).Do(ctx))
		}},
		{"schedule", "", "", m.put},
		{"unschedule", "w", "s", func() error { return s.RemoveSchedule(ctx, "s", "") }},
		{"pause schedule", "", "s", func() error { return s.PauseSchedule(ctx, "s", true) }},
		{"run schedule", "", "s", func() error { return errOf(s.RunSchedule(ctx, "s")) }},
		{"fire", "", "s, s is due", m.fire},
		{"repair schedules", "", "s, s was moved", func() error { return errOf(s.RepairSchedules(ctx, "", true)) }},
	}
}

func (m *slotMove) pushesAndTakes() []slotCall {
	one, nine, both := Wanted{Topics: []string{"t"}, N: 1}, Wanted{Topics: []string{"t"}, N: 9}, Wanted{Topics: []string{"u", "t"}, N: 9}
	registers := Wanted{Topics: []string{"t", "u"}, N: 9, Registration: Registration{Waiter: "me", Always: true}}
	push, take := m.push, m.take
	return []slotCall{
		{"push new", "", "", push(aJob("n", "t", time.Hour))},
		{"push ready", "", "", push(aJob("n", "t", 0))},
		{"push to empty", "", "", push(aJob("n", "v", 0))},
		{"push again", "a", "", push(aJob("a", "t", time.Hour))},
		{"push reserved", "r", "", push(aJob("r", "t", 0))},
		{"push to follow", "r", "", push(followerOfSlot("r"))},
		{"push several", "", "", push(aJob("n", "t", time.Hour), aJob("a", "u", 0), aJob("w", "t", 0))},
		{"pop", "a", "", take("pop", one)},
		{"pop all", "a", "", take("pop", both)},
		{"pop more", "a", "", take("pop", nine)},
		{"pop more of several", "a", "", take("pop", registers)},
		{"reserve", "a", "", take("reserve", one)},
		{"reserve all", "a", "", take("reserve", both)},
		{"reserve more", "a", "", take("reserve", nine)},
		{"reserve more of several", "a", "", take("reserve", registers)},
		{"group new", "", "", push(groupOfSlot("n", 0))},
		{"group full", "", "", push(groupOfSlot("n", 1))},
		{"group again", "g", "", push(groupOfSlot("g", 0))},
		{"group ready", "full", "", push(groupOfSlot("full", 2))},
	}
}

func (m *slotMove) settlements() []slotCall {
	s, ctx := m.Store, m.ctx
	return []slotCall{
		{"ack", "r", "", m.settle("ack")},
		{"ack followed", "f", "", func() error { return eachOf(s.Ack([]LeaseRef{m.last()}).Do(ctx)) }},
		{"bury followed", "f", "", func() error { return eachOf(s.Bury([]Burial{{LeaseRef: m.last(), Reason: "w"}}).Do(ctx)) }},
		{"ack two", "r r2", "", func() error { return eachOf(s.Ack(m.held[:2]).Do(ctx)) }},
		{"retry", "r", "", m.retry},
		{"retry later", "r", "", m.settle("retry")},
		{"retry two", "r r2", "", func() error {
			return eachOf(s.Retry([]Returned{{LeaseRef: m.held[0]}, {LeaseRef: m.held[1], Delay: time.Hour}}).Do(ctx))
		}},
		{"bury", "r", "", m.settle("bury")},
		{"bury two", "r r2", "", func() error {
			return eachOf(s.Bury([]Burial{{LeaseRef: m.held[0], Reason: "w"}, {LeaseRef: m.held[1], Reason: "w"}}).Do(ctx))
		}},
		{"extend", "r", "", m.settle("extend")},
		{"extend two", "r r2", "", func() error {
			return eachOf(s.Extend([]*Extension{{LeaseRef: m.held[0], Lease: 2 * time.Hour}, {LeaseRef: m.held[1], Lease: 2 * time.Hour}}).Do(ctx))
		}},
		{"remove ready", "a", "", func() error { return eachOf(s.Remove(removals("a")).Do(ctx)) }},
		{"remove waiting", "w", "", func() error { return eachOf(s.Remove(removals("w")).Do(ctx)) }},
		{"remove reserved", "r", "", func() error { return eachOf(s.Remove(removals("r")).Do(ctx)) }},
		{"remove dead", "d", "", func() error { return eachOf(s.Remove(removals("d")).Do(ctx)) }},
		{"reschedule", "w", "", func() error { return s.Reschedule(ctx, "w", time.Minute) }},
		{"reschedule now", "w", "", func() error { return s.Reschedule(ctx, "w", 0) }},
		{"reschedule ready", "a", "", func() error { return s.Reschedule(ctx, "a", time.Minute) }},
	}
}

func (m *slotMove) callsOfServers() []slotCall {
	s, ctx := m.Store, m.ctx
	return []slotCall{
		{"requeue", "d", "", func() error { return eachOf(s.Requeue(ctx, []string{"d"}, time.Hour)) }},
		{"drop dead", "d", "", func() error { return errOf(s.DropDead(ctx, "t", []string{"d"}, time.Now().Add(time.Hour))) }},
		{"expire dead", "d", "", func() error { _, _, err := s.ExpireDead(ctx, 0, 0, DeadPosition{}); return err }},
		{"move", "w", "", m.move("t", "w")},
		{"move to empty", "w2", "", m.move("u", "w2")},
		{"due", "o", "", func() error { return errOf(s.Due(Query{Limit: 100}).Do(ctx)) }},
		{"due at once", "o", "", func() error { return errOf(s.Due(Query{Limit: 100, AtOnce: 10}).Do(ctx)) }},
		{"drop", "o", "", func() error {
			return errOf(s.Drop(IDs{[]byte("o")}, time.Now(), time.Now().Add(5*time.Second)).Do(ctx))
		}},
		{"purge", "a", "", func() error { _, _, err := s.Purge(ctx, "t", 100); return err }},
		{"sweep", "w", "", func() error { return errOf(s.Sweep(ctx, Position{})) }},
	}
}

// Calls whose jobs become ready a little later, or of which each job has its own error, so that a second try finds nothing.
var (
	everybodyOfSlot = []string{"r", "r2", "d", "f", "a", "b", "w", "w2", "o", "g", "full"}

	doneLater  = map[string]bool{"move": true, "move to empty": true, "retry": true, "retry two": true, "due at once": true, "ack followed": true, "bury followed": true, "end pauses": true, "keep paused": true, "fire": true}
	doneInPart = map[string]bool{"retry two": true, "purge": true} // each job has its own error; the second try finds nothing
)

// try makes the call with each key moved, and with all moved but one.
func (m *slotMove) try(name string, call func() error, seed []string) {
	t, s, slot, from, to := m.t, m.Store, m.slot, m.from, m.to
	m.seeds(seed...)
	half := halfMoved{&redistest.Move{Slot: slot, From: from, To: to}, t, s.Keys().prefix, m.conns}
	keys := from.Strings("CLUSTER", "GETKEYSINSLOT", slot, 100)
	check(t, call())
	want := half.places()
	for _, moved := range append(keys, "") {
		for _, most := range []bool{false, true} {
			m.seeds(seed...)
			half.Move = m.cluster.BeginMove(slot, to)
			for _, key := range keys {
				if (key == moved) != most {
					half.Key(key)
				}
			}
			before := half.places()
			err := call()
			after := half.places()
			where := fmt.Sprintf("%s of %v with %s moved", name, seed, moved)
			if most {
				where = fmt.Sprintf("%s of %v with all moved but %s", name, seed, moved)
			}
			if err != nil && !OfOneSlot(err) {
				t.Errorf("%s: %v", where, err)
			}
			for _, id := range append(everybodyOfSlot, "n", "t", "ww", "ra", ScheduleID("s"), "s", "{s}@…") {
				got := after[id]
				done, undone := slices.Equal(got, want[id]), slices.Equal(got, before[id])
				if !done && (err == nil && !doneLater[name] || !undone) || err != nil && !undone && !doneInPart[name] {
					t.Errorf("%s (%v): %s is in %q, and was in %q; done is %q", where, err, id, got, before[id], want[id])
				}
			}
			stable(slot, from, to)
		}
	}
}

// While a slot migrates, a script either completes or changes nothing, whichever keys are already on the other node, so a refused caller
// can retry. Jobs for a queue that is on the other node become ready a little later.
func TestScriptsWhileASlotMoves(t *testing.T) {
	redistest.Long(t)
	c, s, slot, from, to := slotToMove(t)
	m := &slotMove{s, t, t.Context(), c, slot, from, to, map[*redistest.Server]redis.Conn{from: from.Conn(), to: to.Conn()}, nil}
	for _, c := range slices.Concat(m.callsOfOperators(), m.pushesAndTakes(), m.settlements(), m.callsOfServers()) {
		with := slices.DeleteFunc(strings.Split(c.with, ", "), func(s string) bool { return s == "" })
		m.try(c.name, c.do, slices.Concat(with, everybodyOfSlot))
		if c.name != "push several" {
			m.try(c.name, c.do, slices.Concat(with, strings.Fields(c.uses)))
		}
	}
}
