package store

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
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

// endsOfKeys is a store whose slot migrates, and still has all its keys here.
type endsOfKeys struct {
	*Store
	t    *testing.T
	ctx  context.Context
	from *redistest.Server
	held LeaseRef
}

func (e *endsOfKeys) push(jobs ...Delayed) {
	e.t.Helper()
	check(e.t, errorOf(e.Push(jobs).Do(e.ctx)))
}

func (e *endsOfKeys) reserve(topic string) LeaseRef {
	e.t.Helper()
	got := made(e.t, e.Reserve(Wanted{Topics: []string{topic}, N: 1}, Reservation{Lease: time.Hour}))
	return LeaseRef{topic, got.Jobs[0].ID, got.Leases[0].Token}
}

// where returns the places of a job.
func (e *endsOfKeys) where(id, topic string) (places []string) {
	if e.from.Do("ZSCORE", e.keys.JobPool(), id) != nil {
		places = append(places, "pool")
	}
	if slices.Contains(e.from.Strings("LRANGE", e.keys.ReadyQueue(topic), 0, -1), id) {
		places = append(places, "queue")
	}
	if e.from.Do("EXISTS", e.keys.JobBucket(id)) == int64(1) {
		places = append(places, "bucket")
	}
	if e.from.Do("EXISTS", e.keys.DeadLetter(id)) == int64(1) {
		places = append(places, "letter")
	}
	return places
}

func (e *endsOfKeys) limit()          { check(e.t, e.limitTo(e.ctx, Limit{Concurrency: 1})) }
func (e *endsOfKeys) slots() []string { return e.from.Strings("ZRANGE", e.keys.Slots("t"), 0, -1) }

func takeOfT(e *endsOfKeys) error {
	return errOf(e.Reserve(Wanted{Topics: []string{"t"}, N: 1}, Reservation{Lease: time.Hour}).Do(e.ctx))
}

var lostB = LeaseRef{"t", "b", 1}

// keysThatEnd are calls of scripts that empty a key midway.
var keysThatEnd = map[string]struct {
	before func(e *endsOfKeys)
	call   func(e *endsOfKeys) error
	isDone func(e *endsOfKeys, err error) bool // or nothing has changed
}{
	"push two again": {func(e *endsOfKeys) {
		e.push(aJob("a", "t", 0))
		e.reserve("t")
		e.push(aJob("b", "t", 0), aJob("c", "t", 0))
	}, func(e *endsOfKeys) error {
		return errOf(e.Push([]Delayed{aJob("a", "t", 0), aJob("b", "t", 0)}).Do(e.ctx))
	}, func(e *endsOfKeys, err error) bool {
		return err == nil || slices.Equal(e.where("b", "t"), []string{"queue", "bucket"})
	}},
	"retry two, one of them lost": {func(e *endsOfKeys) {
		e.push(aJob("a", "t", 0), aJob("c", "t", 0))
		e.held = e.reserve("t")
	}, func(e *endsOfKeys) error {
		return errOf(e.Retry([]Returned{{LeaseRef: e.held}, {LeaseRef: lostB}}).Do(e.ctx))
	}, func(e *endsOfKeys, err error) bool {
		counted := e.from.Do("HGET", e.keys.Reserved(), "t") != nil
		return (err == nil || slices.Equal(e.where("a", "t"), []string{"pool", "bucket"})) && (!counted || slices.Contains(e.where("a", "t"), "pool"))
	}},
	"retry two of a limited topic, one of them lost": {func(e *endsOfKeys) {
		e.limit()
		e.push(aJob("a", "t", 0), aJob("c", "t", 0))
		e.held = e.reserve("t")
	}, func(e *endsOfKeys) error {
		return errOf(e.Retry([]Returned{{LeaseRef: e.held}, {LeaseRef: lostB}}).Do(e.ctx))
	}, func(e *endsOfKeys, _ error) bool {
		return len(e.slots()) == 0 || slices.Contains(e.where("a", "t"), "pool")
	}},
	"bury two, one of them lost": {func(e *endsOfKeys) {
		e.push(aJob("a", "t", 0), aJob("c", "t", 0))
		e.held = e.reserve("t")
		e.from.Do("ZADD", e.keys.DeadLetters("t"), 1, "x")
		e.from.Do("HSET", e.keys.DeadLetter("a"), "topic", "t", "body", "old")
	}, func(e *endsOfKeys) error {
		return errOf(e.Bury([]Burial{{LeaseRef: e.held, Reason: "w"}, {LeaseRef: lostB, Reason: "w"}}).Do(e.ctx))
	}, func(e *endsOfKeys, err error) bool { return err == nil || slices.Contains(e.where("a", "t"), "pool") }},
	"repair schedules": {func(e *endsOfKeys) {
		e.push(aJob("a", ScheduleTopic, 0), aJob("w", "t", 0))
		e.reserve("t")
		e.from.Do("ZADD", e.keys.Schedules(), 0, "x")
	}, func(e *endsOfKeys) error { return errOf(e.RepairSchedules(e.ctx, "", true)) }, func(e *endsOfKeys, _ error) bool {
		return slices.Contains(e.where("a", ScheduleTopic), "queue")
	}},
	"reserve of a limited topic without a pool": {func(e *endsOfKeys) {
		e.limit()
		e.push(aJob("a", "t", 0), aJob("c", "t", 0))
		e.reserve("t")
		e.from.Do("ZADD", e.keys.Slots("t"), "1000000.123457", "a")
		e.from.Do("DEL", e.keys.JobPool())
	}, func(e *endsOfKeys) error {
		takeOfT(e)
		takeOfT(e)
		return takeOfT(e)
	}, func(e *endsOfKeys, _ error) bool { // refused calls do not count
		return string(e.from.Do("HGET", e.keys.Reserved(), "t").([]byte)) == "2199023255553"
	}},
	"reserve of a limited topic whose slots are all free": {func(e *endsOfKeys) {
		e.limit()
		e.push(aJob("a", "t", 0))
		e.push(aJob("w", "t", time.Hour))
		e.from.Do("ZADD", e.keys.Slots("t"), "1000000", "gone")
	}, takeOfT, func(e *endsOfKeys, _ error) bool {
		return !slices.Contains(e.where("a", "t"), "pool") || slices.Contains(e.slots(), "a")
	}},
}

// While a slot migrates and still has all its keys here, a script that empties a key midway either completes or changes nothing.
func TestKeysThatEndWhileASlotMoves(t *testing.T) {
	redistest.Long(t)
	cluster, s, slot, from, to := slotToMove(t)
	for name, c := range keysThatEnd {
		t.Run(name, func(t *testing.T) {
			e := &endsOfKeys{Store: s, t: t, ctx: t.Context(), from: from}
			from.Do("FLUSHALL")
			to.Do("FLUSHALL")
			c.before(e)
			cluster.BeginMove(slot, to)
			err := c.call(e)
			stable(slot, from, to)
			if !c.isDone(e, err) {
				t.Errorf("done in part (%v): a is in %q, b in %q, the slots are %q", err, e.where("a", "t"), e.where("b", "t"), e.slots())
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
