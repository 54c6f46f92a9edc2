package wait

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// run answers all polls and probes of all nodes from the queues, one at a time.
func (h *hand) run(ready map[readyQueue]int) {
	for busy := true; busy; {
		busy = false
		for _, n := range h.nodes {
			for _, s := range h.probesOf(n) {
				busy = true
				lengths := map[string]int{}
				for _, l := range s.queues {
					lengths[l.topic] = ready[readyQueue{s.partition, l.topic}]
				}
				h.finds(s, true, lengths, nil)
			}
			if one := h.asksOf(n); one != nil {
				busy = true
				var p store.Popped
				for i, l := range one.queues {
					q := readyQueue{one.partition, l.topic}
					got := min(ready[q], one.N-len(p.Jobs), one.limit(i))
					p.Jobs, ready[q] = append(p.Jobs, jobs(l.topic, got)...), ready[q]-got
				}
				p.Registered = one.Waiter != ""
				h.answer(one, p, nil)
			}
		}
	}
}

// One partition, in turn, is polled first. If it has no job, the others are probed, and then a partition with a job is
// polled.
func TestOnePartitionFirst(t *testing.T) {
	h := inHands(t, 3)
	for turn := range 6 {
		want := h.partitions[h.turn%3]
		g := h.joins(Request{Topics: []string{"t"}, N: 1})
		one := h.asks()
		if one.partition != want || h.partitions[h.turn%3] == want || len(h.probesOf(h.s.node)) > 0 {
			t.Fatalf("turn %d: another partition is asked, or several, or the same the next time", turn)
		}
		h.answer(one, store.Popped{}, nil)
		probes := h.probesOf(h.s.node)
		if len(probes) != 2 || h.asks() != nil {
			t.Fatalf("turn %d: %d partitions are looked at", turn, len(probes))
		}
		h.finds(probes[0], true, nil, nil)
		g.expectWaits(t)
		if turn%2 == 0 {
			h.finds(probes[1], true, nil, nil)
			g.expectErr(t, store.ErrEmpty)
			continue
		}
		h.finds(probes[1], true, map[string]int{"t": 1}, nil)
		one = h.asks()
		if one == nil || one.partition != probes[1].partition {
			t.Fatalf("turn %d: the partition with a job is not asked", turn)
		}
		if turn == 1 { // another client was faster
			h.answer(one, store.Popped{}, nil)
			g.expectErr(t, store.ErrEmpty)
			continue
		}
		h.answer(one, store.Popped{Jobs: jobs("t", 1)}, nil)
		g.expectJob(t, "t1")
	}
}

// Callers that arrive at the same time share a poll, and then one probe of each other partition.
func TestProbesAreShared(t *testing.T) {
	h := inHands(t, 4)
	var guests []*guest
	for range 10 {
		guests = append(guests, h.joins(Request{Topics: []string{"t"}, N: 1}), h.waiter("t"))
	}
	polls := 0
	for one := h.asks(); one != nil; one = h.asks() {
		h.answer(one, store.Popped{Registered: true}, nil)
		polls++
	}
	probes := h.probesOf(h.s.node)
	if len(probes) != 3 || polls != 1 {
		t.Errorf("%d polls, and %d checks", polls, len(probes))
	}
	for _, s := range probes {
		if !slices.Equal(s.check.Topics, []string{"t"}) || s.check.Since[0] < 0 {
			t.Errorf("%+v", s.check.Poll)
		}
		h.finds(s, true, nil, nil)
	}
	h.settle()
	for _, g := range guests {
		if g.Waits {
			g.expectWaits(t)
		} else {
			g.expectErr(t, store.ErrEmpty)
		}
	}
	for _, s := range h.partitions {
		if l := s.queues["t"]; l == nil || !l.isRegistered() {
			t.Error("who waits is not entered in a partition")
		}
	}
}

// A job of an earlier topic comes first, regardless of its partition and node and of the order of the replies.
func TestTopicsInOrderOverPartitions(t *testing.T) {
	for _, partitions := range [][]int{{4}, {2, 2}, {1, 3}} {
		for first := range 4 {
			for second := range 4 {
				h := inHands(t, partitions...)
				ready := map[readyQueue]int{{h.partitions[first], "a"}: 1, {h.partitions[second], "b"}: 1}
				slices.Reverse(h.nodes)
				g := h.waiter("a", "b")
				h.run(ready)
				g.expectJob(t, "a1")
				g = h.joins(Request{Topics: []string{"a", "b"}, N: 1})
				h.run(ready)
				g.expectJob(t, "b1")
				g = h.joins(Request{Topics: []string{"a", "b"}, N: 1})
				h.run(ready)
				g.expectErr(t, store.ErrEmpty)
			}
		}
	}
}

// A caller that arrives while the topic's queue in one partition is being polled waits for that poll and shares the
// next one with the others.
func TestPollsAreShared(t *testing.T) {
	h := inHands(t, 3)
	first := h.joins(Request{Topics: []string{"t"}, N: 1})
	one := h.asks()
	var guests []*guest
	for range 5 {
		guests = append(guests, h.joins(Request{Topics: []string{"t"}, N: 1}))
	}
	if h.asks() != nil {
		t.Fatal("another partition is asked meanwhile")
	}
	h.answer(one, store.Popped{Jobs: jobs("t", 1)}, nil)
	first.expectJob(t, "t1")
	if one = h.asks(); one == nil || len(one.claims) != 5 || one.partition == h.s {
		t.Fatalf("%+v", one)
	}
	h.answer(one, store.Popped{Jobs: jobs("t", 5)}, nil)
	for _, g := range guests {
		if len(g.answers) == 0 {
			t.Fatal("it has no answer")
		}
	}
	if len(h.polling) > 0 {
		t.Errorf("%v", h.polling)
	}
}

// No job is taken for a caller of several topics before all partitions have been probed, even if a wake-up arrives in
// the meantime.
func TestNothingIsTakenDuringAProbe(t *testing.T) {
	h := inHands(t, 1, 1)
	g := h.waiter("a", "b")
	near, far := h.probesOf(h.nodes[0]), h.probesOf(h.nodes[1])
	if len(near) != 1 || len(far) != 1 {
		t.Fatalf("%d and %d checks", len(near), len(far))
	}
	h.finds(near[0], true, map[string]int{"b": 1}, nil)
	h.s.wake("b", 1)
	if h.asks() != nil {
		t.Fatal("a job of the second topic is taken before it is known whether there is one of the first")
	}
	h.finds(far[0], true, map[string]int{"a": 1}, nil)
	one := h.asksOf(h.nodes[1])
	if one == nil || !slices.Equal(one.topics(), []string{"a"}) {
		t.Fatalf("%+v", one)
	}
	h.answer(one, store.Popped{}, nil) // another client was faster
	if one = h.asks(); one == nil || !slices.Equal(one.topics(), []string{"b"}) {
		t.Fatalf("the other one is not asked then: %+v", one)
	}
	h.answer(one, store.Popped{Jobs: jobs("b", 1)}, nil)
	g.expectJob(t, "b1")
}

// No probe is sent for a caller that has left.
func TestProbeOfNobody(t *testing.T) {
	h := inHands(t, 3)
	g := h.waiter("a", "b")
	h.leave(g.caller, context.Canceled)
	g.expectErr(t, context.Canceled)
	for _, s := range h.probesOf(h.s.node) {
		if s.check != nil {
			t.Errorf("%+v", s.check)
		}
		h.finds(s, true, nil, nil)
	}
	g = h.waiter("a", "b")
	probes := h.probesOf(h.s.node)
	h.leave(g.caller, context.Canceled)
	g.expectErr(t, context.Canceled)
	for _, s := range probes {
		h.finds(s, true, map[string]int{"a": 1}, nil)
	}
	if one := h.asks(); one != nil {
		t.Errorf("%+v", one)
	}
}

// partitionsOf returns the given number of partitions of a Redis.
func partitionsOf(t *testing.T, f *redistest.Server, n int) []*store.Store {
	t.Helper()
	return fleet.Layout{Partitions: n}.Open(f.Pool(), store.DefaultPrefix).Stores
}

func push(t *testing.T, s *store.Store, id, topic string) {
	t.Helper()
	job := store.Delayed{Job: store.Job{ID: id, Topic: topic, Body: "b"}, Terms: store.Terms{Lifetime: time.Hour, Policy: store.Replace}}
	errs, err := s.Push([]store.Delayed{job}).Do(t.Context())
	redistest.Check(t, errors.Join(append(errs, err)...))
}

// All partitions of a Redis share one subscription, and each wakes waiting callers.
func TestPartitionsOfOneRedis(t *testing.T) {
	t.Parallel()
	f := redistest.Start(t)
	var log redistest.Log
	partitions := partitionsOf(t, f, 16)
	dispatcher, _ := onRedis(t, &log, partitions...)
	for _, p := range partitions {
		result := waits(t, t.Context(), dispatcher, "t")
		dispatcher.ForTests().Calm()
		push(t, p, "id", "t")
		if got := redistest.Receive(t, result); got.err != nil || got.Jobs.Jobs[0].ID != "id" {
			t.Fatalf("%+v", got)
		}
	}
	list, _ := redis.String(f.Do("CLIENT", "LIST", "TYPE", "pubsub"), nil)
	if n := strings.Count(list, "\n"); n != 1 {
		t.Errorf("%d subscriptions", n)
	}
}

// A caller of several partitions gets the reason why there is no connection. No poll is sent for a caller that left
// earlier.
func TestProbeWithoutConnection(t *testing.T) {
	h := inHands(t, 3)
	g, gone := h.joins(Request{Topics: []string{"a", "b"}, N: 1}), h.waiter("c", "d")
	h.leave(gone.caller, context.Canceled)
	if n, call := h.s.Next(); n == 0 {
		t.Fatal("there is nothing to send")
	} else {
		call(nil, errBroken)
	}
	g.expectErr(t, errBroken)
	h.waiter("e", "f")
	for _, s := range h.probesOf(h.s.node) {
		for i := range s.check.Topics {
			if s.check.Since[i] < 0 {
				t.Errorf("who waits is not entered for %s", s.check.Topics[i])
			}
		}
	}
}

// A store that gets a job while all its callers are claimed elsewhere is polled once they are free.
func TestBlockedByAnotherStore(t *testing.T) {
	h := inHand(t)
	elsewhere := store.New(&redis.Pool{Dial: func() (redis.Conn, error) { return nil, errCut }}, store.DefaultPrefix)
	other := &partition{dispatcher: h.Dispatcher, store: elsewhere, index: len(h.partitions), queues: map[string]*waitQueue{}}
	h.partitions = append(h.partitions, other)
	node := newNode(h.Dispatcher, []*partition{other})
	node.listener.running, node.listener.state = true, subscribed
	h.nodes = append(h.nodes, node)
	g := newCaller(h.Dispatcher, Request{Topics: []string{"t"}, N: 1, Waits: true})
	_, err := h.join(g)
	redistest.Check(t, err)
	one := h.asks()
	h.mu.Lock()
	other.batches = batch.NewSender(h.owner, other.store.Pipeline, &h.mu, node, 1)
	other.queue("t").on(woken, 1)
	other.queue("t").goOn()
	other.batches.Wake() // no effect: its caller is claimed
	h.mu.Unlock()
	h.answer(one, store.Popped{Registered: true}, nil)
	// The store is polled now; it has no connection.
	redistest.Until(t, "the other store is asked", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return errors.Is(g.lastErr, errCut)
	})
}
