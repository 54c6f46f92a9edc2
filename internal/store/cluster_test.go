package store

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// inCluster returns 16 partitions in the cluster.
func inCluster(t *testing.T, c *redistest.Cluster) []*Store {
	t.Helper()
	return partitions(poolOf(t, c), 16)
}

func poolOf(t *testing.T, c *redistest.Cluster) *redisconn.Cluster {
	t.Helper()
	second := redisconn.Dialer{ConnectTimeout: time.Second, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second}
	pool := redisconn.NewCluster(strings.Split(c.Addrs(), ","), second, func(d redisconn.Dialer) *redis.Pool {
		return &redis.Pool{MaxIdle: 4, DialContext: d.Dial, TestOnBorrowContext: redisconn.CheckRested}
	})
	t.Cleanup(func() { pool.Close() })
	return pool
}

// occurrenceForm matches the occurrence in the ID of a schedule's job.
var occurrenceForm = regexp.MustCompile(`@(now-|\d\d\d\d-).*`)

// halfMoved is a slot with some of its keys already on another node.
type halfMoved struct {
	*redistest.Move
	tb     testing.TB
	prefix string
	conns  map[*redistest.Server]redis.Conn // to the two nodes
}

// cut splits a key into its kind and what it belongs to.
func (h halfMoved) cut(key string) (name, of string) {
	name, of, _ = strings.Cut(strings.TrimPrefix(key, h.prefix), ":")
	return name, of
}

// places returns the keys of each job, on both nodes. A group is listed under its key, and its bucket under its body too. Topics and
// schedules are listed by name.
func (h halfMoved) places() map[string][]string {
	all := map[string][]string{}
	for server, conn := range h.conns {
		keys := server.Strings("KEYS", "*")
		for _, key := range keys { // pipelined, because the test does it thousands of times
			conn.Send("ASKING")
			switch name, _ := h.cut(key); name {
			case "job_pool", "dead_letters", "schedules":
				conn.Send("ZRANGE", key, 0, -1)
			case "ready_queue", "paused_queue":
				conn.Send("LRANGE", key, 0, -1)
			case "limits", "paused", "set_aside":
				conn.Send("HKEYS", key)
			case "job_bucket", "dead_letter":
				conn.Send("HMGET", key, "body")
			default:
				conn.Send("PING")
			}
		}
		if len(keys) == 0 {
			continue
		}
		replies, err := redis.Values(conn.Do(""))
		redistest.Check(h.tb, err)
		for i, key := range keys {
			name, of := h.cut(key)
			ids, _ := redis.Strings(replies[2*i+1], nil) // none of a PING
			body := ""
			if name == "job_bucket" || name == "dead_letter" {
				ids, of, body = []string{of}, "", " "+ids[0]
			}
			for _, id := range ids {
				place := strings.TrimSuffix(name+" "+of, " ")
				if group, isGroup := strings.CutPrefix(id, "{t:"); isGroup {
					if name == "job_bucket" {
						place += body
					}
					id, _, _ = strings.Cut(group, "}")
				}
				all[occurrenceForm.ReplaceAllString(id, "@…")] = append(all[occurrenceForm.ReplaceAllString(id, "@…")], place)
			}
		}
	}
	for id, places := range all {
		slices.Sort(places)
		if slices.Contains(places, "job_pool") { // a consumer that finds the other entry drops it
			all[id] = slices.DeleteFunc(places, func(p string) bool { return strings.HasPrefix(p, "ready_queue") })
		}
	}
	return all
}

// While a slot migrates, a script either completes or changes nothing, whichever keys are already on the other node, so a refused caller
// can retry. Jobs for a queue that is on the other node become ready a little later.
func TestScriptsWhileASlotMoves(t *testing.T) {
	redistest.Long(t)
	c, s, slot, from, to := slotToMove(t)
	conns := map[*redistest.Server]redis.Conn{from: from.Conn(), to: to.Conn()}
	ctx := t.Context()
	job := func(id, topic string, after time.Duration) Delayed {
		return Delayed{Job: Job{ID: id, Topic: topic, Body: "b"}, Due: Due{After: after}, Terms: Terms{Lifetime: time.Hour}}
	}
	daily := Schedule{Name: "s", Spec: "@daily", Zone: "UTC", Topic: "t", Body: "b", Missed: MissedOnce, Overlap: OverlapSkip, Terms: Terms{Lifetime: time.Hour}}
	never := time.Now().Add(24 * time.Hour)
	put := func() error { _, _, err := s.PutSchedule(ctx, daily, never); return err }
	follower := func(id string) Delayed {
		f := job(id, "t", 0)
		f.Policy = Follow
		return f
	}
	toGroup := func(key string, most int) Delayed {
		return toGroup("t", key, "1", Group{Max: most, Longest: time.Hour})
	}
	each := func(errs []error, err error) error {
		for _, e := range errs {
			if isNotHere(e) { // retried only if the whole call was refused
				e = fmt.Errorf("told of one job: %v", e)
			}
			err = cmp.Or(err, e)
		}
		return err
	}
	// seeds put jobs in the states that the calls need: r and r2 are reserved, f is reserved and has a follower, d is dead, a and b are
	// ready, w and w2 wait, o is due.
	var held []LeaseRef
	seeds := func(ids ...string) {
		t.Helper()
		for _, server := range []*redistest.Server{from, to} {
			server.Do("FLUSHALL")
		}
		held = nil
		push := func(id, topic string, after time.Duration) {
			if slices.Contains(ids, id) {
				check(t, each(s.Push([]Delayed{job(id, topic, after)}).Do(ctx)))
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
			if held = append(held, h); j.ID == "d" {
				check(t, each(s.Bury([]Burial{{LeaseRef: h, Reason: "w"}}).Do(ctx)))
			} else if j.ID == "f" {
				check(t, each(s.Push([]Delayed{follower("f")}).Do(ctx)))
			}
		}
		push("a", "t", 0)
		push("b", "t", 0)
		push("w", "t", time.Hour)
		push("w2", "u", time.Hour)
		push("o", "t", time.Millisecond)
		for _, key := range []string{"g", "full"} {
			if slices.Contains(ids, key) {
				check(t, each(s.Push([]Delayed{toGroup(key, 0)}).Do(ctx)))
			}
		}
		if slices.Contains(ids, "s") {
			check(t, put())
		}
		if slices.Contains(ids, "s is due") {
			from.Do("ZADD", s.Keys().JobPool(), 1000, ScheduleID("s"))
		}
		if slices.Contains(ids, "s was moved") {
			from.Do("ZREM", s.Keys().JobPool(), ScheduleID("s"))
			from.Do("LPUSH", s.Keys().ReadyQueue(ScheduleTopic), ScheduleID("s"))
		}
		if slices.Contains(ids, "limit") { // as many as there are reserved jobs
			check(t, s.limitTo(ctx, Limit{Concurrency: len(got.Jobs)}))
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
	last := func() LeaseRef { return held[len(held)-1] } // f, if present
	everybody := []string{"r", "r2", "d", "f", "a", "b", "w", "w2", "o", "g", "full"}
	fire := func() error {
		read, err := s.SchedulesOf(IDs{[]byte(ScheduleID("s"))}).Do(ctx)
		if err != nil || len(read.List) == 0 {
			return err
		}
		f := Firing{Scheduled: read.List[0], Upcoming: never.Add(time.Hour), Occurrences: []FiredOccurrence{{never, OccurrenceRan, time.Unix(1000, 0)}}}
		_, err = s.Fire([]Firing{f}, time.Now().Add(time.Minute), time.Second).Do(ctx)
		return err
	}
	limit := func(l Limit) func() error { return func() error { return s.limitTo(ctx, l) } }
	push := func(jobs ...Delayed) func() error { return func() error { return each(s.Push(jobs).Do(ctx)) } }
	take := func(how string, w Wanted) func() error {
		return func() error { return errOf(takes[how](s, w).Do(ctx)) }
	}
	settle := func(verb string) func() error {
		return func() error { return each(settlements[verb](s, held[0]).Do(ctx)) }
	}
	retry := func() error { return each(s.Retry([]Returned{{LeaseRef: held[0]}}).Do(ctx)) }
	move := func(topic, id string) func() error {
		far := time.Now().Add(2 * time.Hour)
		return func() error {
			return errOf(s.Move(Batch{Topic: topic, IDs: IDs{[]byte(id)}}, far, far, far.Add(5*time.Second)).Do(ctx))
		}
	}
	one, nine, both := Wanted{Topics: []string{"t"}, N: 1}, Wanted{Topics: []string{"t"}, N: 9}, Wanted{Topics: []string{"u", "t"}, N: 9}
	registers := Wanted{Topics: []string{"t", "u"}, N: 9, Registration: Registration{Waiter: "me", Always: true}}
	calls := []struct {
		name, uses string // the jobs that it uses
		with       string // what else it needs
		do         func() error
	}{
		{"reserve at the limit", "r a", "limit", take("reserve", nine)},
		{"ack at the limit", "r a", "limit", settle("ack")},
		{"push paused", "", "pause", push(job("n", "t", 0))},
		{"retry paused", "r", "pause", retry},
		{"limit", "a", "", limit(Limit{Concurrency: 2})},
		{"limit, a rate", "a", "limit", limit(Limit{Rate: 2})},
		{"limit, another", "a", "limit", limit(Limit{Concurrency: 5})},
		{"limit, none", "a", "limit", limit(Limit{})},
		{"pause", "w", "", func() error { return errOf(s.Pause("t", time.Hour, "").Do(ctx)) }},
		{"pause again", "w", "pause", func() error { return errOf(s.BackOff("t", time.Hour).Do(ctx)) }},
		{"resume", "w", "pause", func() error { return errOf(s.Resume("t", 1).Do(ctx)) }},
		{"keep paused", "w", "pause, a", func() error { return errOf(s.KeepPaused("0", 1).Do(ctx)) }},
		{"end pauses", "a", "pause, pause is over", func() error { return errOf(s.KeepPaused("0", 1).Do(ctx)) }},
		{"restore", "", "", func() error {
			return errOf(s.Restore([]Record{{Kind: RecordReady, ID: "n", TTL: time.Hour, Fields: map[string]string{"topic": "t"}}, {Kind: RecordDead, ID: "n", At: never, TTL: -1, Fields: map[string]string{"topic": "t"}}}, false).Do(ctx))
		}},
		{"schedule", "", "", put},
		{"unschedule", "w", "s", func() error { return s.RemoveSchedule(ctx, "s", "") }},
		{"pause schedule", "", "s", func() error { return s.PauseSchedule(ctx, "s", true) }},
		{"run schedule", "", "s", func() error { return errOf(s.RunSchedule(ctx, "s")) }},
		{"fire", "", "s, s is due", fire},
		{"repair schedules", "", "s, s was moved", func() error { return errOf(s.RepairSchedules(ctx, "", true)) }},
		{"push new", "", "", push(job("n", "t", time.Hour))},
		{"push ready", "", "", push(job("n", "t", 0))},
		{"push to empty", "", "", push(job("n", "v", 0))},
		{"push again", "a", "", push(job("a", "t", time.Hour))},
		{"push reserved", "r", "", push(job("r", "t", 0))},
		{"push to follow", "r", "", push(follower("r"))},
		{"push several", "", "", push(job("n", "t", time.Hour), job("a", "u", 0), job("w", "t", 0))},
		{"pop", "a", "", take("pop", one)},
		{"pop all", "a", "", take("pop", both)},
		{"pop more", "a", "", take("pop", nine)},
		{"pop more of several", "a", "", take("pop", registers)},
		{"reserve", "a", "", take("reserve", one)},
		{"reserve all", "a", "", take("reserve", both)},
		{"reserve more", "a", "", take("reserve", nine)},
		{"reserve more of several", "a", "", take("reserve", registers)},
		{"ack", "r", "", settle("ack")},
		{"ack followed", "f", "", func() error { return each(s.Ack([]LeaseRef{last()}).Do(ctx)) }},
		{"bury followed", "f", "", func() error { return each(s.Bury([]Burial{{LeaseRef: last(), Reason: "w"}}).Do(ctx)) }},
		{"ack two", "r r2", "", func() error { return each(s.Ack(held[:2]).Do(ctx)) }},
		{"retry", "r", "", retry},
		{"retry later", "r", "", settle("retry")},
		{"retry two", "r r2", "", func() error {
			return each(s.Retry([]Returned{{LeaseRef: held[0]}, {LeaseRef: held[1], Delay: time.Hour}}).Do(ctx))
		}},
		{"bury", "r", "", settle("bury")},
		{"bury two", "r r2", "", func() error {
			return each(s.Bury([]Burial{{LeaseRef: held[0], Reason: "w"}, {LeaseRef: held[1], Reason: "w"}}).Do(ctx))
		}},
		{"extend", "r", "", settle("extend")},
		{"extend two", "r r2", "", func() error {
			return each(s.Extend([]*Extension{{LeaseRef: held[0], Lease: 2 * time.Hour}, {LeaseRef: held[1], Lease: 2 * time.Hour}}).Do(ctx))
		}},
		{"remove ready", "a", "", func() error { return each(s.Remove("a").Do(ctx)) }},
		{"remove waiting", "w", "", func() error { return each(s.Remove("w").Do(ctx)) }},
		{"remove reserved", "r", "", func() error { return each(s.Remove("r").Do(ctx)) }},
		{"remove dead", "d", "", func() error { return each(s.Remove("d").Do(ctx)) }},
		{"reschedule", "w", "", func() error { return s.Reschedule(ctx, "w", time.Minute) }},
		{"reschedule now", "w", "", func() error { return s.Reschedule(ctx, "w", 0) }},
		{"reschedule ready", "a", "", func() error { return s.Reschedule(ctx, "a", time.Minute) }},
		{"requeue", "d", "", func() error { return each(s.Requeue(ctx, []string{"d"}, time.Hour)) }},
		{"drop dead", "d", "", func() error { return errOf(s.DropDead(ctx, "t", []string{"d"}, time.Now().Add(time.Hour))) }},
		{"expire dead", "d", "", func() error { _, _, err := s.ExpireDead(ctx, 0, 0, DeadPosition{}); return err }},
		{"move", "w", "", move("t", "w")},
		{"move to empty", "w2", "", move("u", "w2")},
		{"due", "o", "", func() error { return errOf(s.Due(Query{Limit: 100}).Do(ctx)) }},
		{"due at once", "o", "", func() error { return errOf(s.Due(Query{Limit: 100, AtOnce: 10}).Do(ctx)) }},
		{"drop", "o", "", func() error {
			return errOf(s.Drop(IDs{[]byte("o")}, time.Now(), time.Now().Add(5*time.Second)).Do(ctx))
		}},
		{"group new", "", "", push(toGroup("n", 0))},
		{"group full", "", "", push(toGroup("n", 1))},
		{"group again", "g", "", push(toGroup("g", 0))},
		{"group ready", "full", "", push(toGroup("full", 2))},
		{"purge", "a", "", func() error { _, _, err := s.Purge(ctx, "t", 100); return err }},
		{"sweep", "w", "", func() error { return errOf(s.Sweep(ctx, Position{})) }},
	}
	later := map[string]bool{"move": true, "move to empty": true, "retry": true, "retry two": true, "due at once": true, "ack followed": true, "bury followed": true, "end pauses": true, "keep paused": true, "fire": true}
	partly := map[string]bool{"retry two": true, "purge": true} // each job has its own error; the second try finds nothing
	try := func(name string, call func() error, seed []string) {
		seeds(seed...)
		m := halfMoved{&redistest.Move{Slot: slot, From: from, To: to}, t, s.Keys().prefix, conns}
		keys := from.Strings("CLUSTER", "GETKEYSINSLOT", slot, 100)
		check(t, call())
		want := m.places()
		for _, moved := range append(keys, "") {
			for _, most := range []bool{false, true} {
				seeds(seed...)
				m.Move = c.BeginMove(slot, to)
				for _, key := range keys {
					if (key == moved) != most {
						m.Key(key)
					}
				}
				before := m.places()
				err := call()
				after := m.places()
				where := fmt.Sprintf("%s of %v with %s moved", name, seed, moved)
				if most {
					where = fmt.Sprintf("%s of %v with all moved but %s", name, seed, moved)
				}
				if err != nil && !isNotHere(err) {
					t.Errorf("%s: %v", where, err)
				}
				for _, id := range append(everybody, "n", "t", "ww", "ra", ScheduleID("s"), "s", "{s}@…") {
					got := after[id]
					done, undone := slices.Equal(got, want[id]), slices.Equal(got, before[id])
					if !done && (err == nil && !later[name] || !undone) || err != nil && !undone && !partly[name] {
						t.Errorf("%s (%v): %s is in %q, and was in %q; done is %q", where, err, id, got, before[id], want[id])
					}
				}
				stable(slot, from, to)
			}
		}
	}
	for _, c := range calls {
		with := slices.DeleteFunc(strings.Split(c.with, ", "), func(s string) bool { return s == "" })
		try(c.name, c.do, slices.Concat(with, everybody))
		if c.name != "push several" {
			try(c.name, c.do, slices.Concat(with, strings.Fields(c.uses)))
		}
	}
}

// A subscription receives the channels of one node, whatever their slots, and ends when one of them moves to another node.
func TestSubscriptionInCluster(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	c := redistest.StartCluster(t)
	p := inCluster(t, c)
	ctx := t.Context()
	check(t, p[0].Ping(ctx))
	channel := func(s *Store) string { return s.Keys().Wake("me") }
	var here, there []*Store // stores on the node of p[0], and the others
	for _, s := range p {
		if s.Node() == p[0].Node() {
			here = append(here, s)
		} else {
			there = append(there, s)
		}
	}
	slot := func(s *Store) int { return c.Slot(s.Keys().JobPool()) }
	owner := c.Owner(slot(here[0]))

	subscribe := func(s *Store, more ...*Store) *Subscription {
		t.Helper()
		var sub *Subscription
		redistest.Until(t, "it hears its channels", func() bool {
			var err error
			if sub, err = s.Subscribe(ctx, time.Minute); err != nil {
				return false
			}
			for _, s := range append(more, s) {
				if err := sub.Add(channel(s)); err != nil {
					sub.Close()
					return false
				}
				if event, err := sub.Receive(); err != nil {
					sub.Close()
					return false
				} else if !event.Subscribed || event.Channel != channel(s) {
					t.Fatalf("got %+v", event)
				}
			}
			return true
		})
		t.Cleanup(func() { sub.Close() })
		return sub
	}
	sub := subscribe(here[0], here[1], here[2])
	for _, s := range here[:3] {
		owner.Do("SPUBLISH", channel(s), "x")
		expectEvents(t, sub, told(channel(s), "x"))
	}
	counts, err := here[1].Waiters(ctx, waitedFor("t"))
	if err != nil || len(counts[0]) != 0 {
		t.Errorf("waiters %v, %v", counts, err)
	}
	owner.Do("ZADD", here[1].Keys().Waiters("t"), 1, "me")
	if counts, err = here[1].Waiters(ctx, waitedFor("t")); err != nil || len(counts[0]) != 1 {
		t.Errorf("waiters %v, %v, want 1", counts, err)
	}
	check(t, sub.Remove(channel(here[2])))
	check(t, sub.Add(channel(there[0])))
	if event, err := sub.Receive(); !isNotHere(err) {
		t.Errorf("a channel of another node: %+v, %v", event, err)
	}

	ended := func(sub *Subscription, what string) {
		t.Helper()
		over := make(chan error, 1)
		go func() {
			for {
				if _, err := sub.Receive(); err != nil {
					over <- err
					return
				}
			}
		}()
		redistest.Until(t, what, func() bool {
			here[0].Ping(ctx) // a client that sends nothing learns nothing
			select {
			case <-over:
				return true
			default:
				return false
			}
		})
	}
	sub = subscribe(here[0], here[1])
	c.MoveSlot(slot(here[1]), c.Owner(slot(there[0])))
	ended(sub, "a slot has moved")
	subscribe(here[1])
	if here[1].Node() == here[0].Node() {
		t.Error("the partition is where it was")
	}

	sub = subscribe(here[0])
	i := slices.Index(c.Servers, owner)
	c.AwaitHealth()
	c.Failover(c.Servers[3+i])
	c.AwaitOwner(slot(here[0]), owner)
	owner.Do("CLIENT", "KILL", "TYPE", "normal") // the connections of the pool
	ended(sub, "its node was demoted")
	sub = subscribe(here[0])
	c.AwaitHealth()
	c.Kill(c.Owner(slot(here[0])))
	ended(sub, "its node was killed")
	subscribe(here[0])
}

// Calls to a node share one connection from the first call on, the one that located the node. So they keep their order.
func TestOrderBeforeTheNodeIsKnown(t *testing.T) {
	t.Parallel()
	f := redistest.StartNode(t)
	s := New(poolOf(t, &redistest.Cluster{TB: t, Servers: []*redistest.Server{f}}), "{t}:")
	lines := pipelines{}
	defer lines.close()
	first, err := lines.to(t.Context(), s)
	check(t, err)
	if second, err := lines.to(t.Context(), s); second != first || err != nil {
		t.Errorf("%p, then %p, %v", first, second, err)
	}
}
