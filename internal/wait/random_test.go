package wait

import (
	"context"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

// A caller that left during a poll does not cause repeated polls while Redis is down.
func TestLeftCallersDoNotPoll(t *testing.T) {
	h := inHand(t)
	first := h.waiter("t")
	one := h.asks()
	second := h.waiter("t")
	h.leave(second.caller, context.Canceled)
	h.answer(one, store.Popped{}, errCut)
	if next := h.asks(); next != nil {
		t.Error("it is asked again at once")
	}
	first.expectWaits(t)
	second.expectErr(t, context.Canceled)
}

// A queue without a registration is checked soon, even if the next check is far off.
func TestCheckAfterAnError(t *testing.T) {
	h := inHand(t)
	e := h.s.listener
	h.waiter("t")
	one := h.asks()
	k := &checks{listener: e, next: time.Now().Add(slowCheck), served: true, checked: time.Now()}
	h.answer(one, store.Popped{}, errCut)
	select {
	case <-e.changed:
	default:
		t.Fatal("the listener is not told")
	}
	if k.plan(); time.Until(k.next) > checkEvery {
		t.Errorf("it checks in %v", time.Until(k.next))
	}
}

// gone is a connection that still delivers messages after it was closed.
type gone struct {
	redis.Conn
	reads, closed chan struct{}
	ended         atomic.Bool
}

func (g *gone) Send(string, ...any) error { return nil }
func (g *gone) Flush() error              { return nil }
func (g *gone) Err() error                { return errCut }
func (g *gone) Close() error              { close(g.closed); return nil }
func (g *gone) Receive() (any, error)     { return g.ReceiveWithTimeout(0) }

func (g *gone) ReceiveWithTimeout(time.Duration) (any, error) {
	close(g.reads)
	<-g.closed
	for range 1000 {
		runtime.Gosched()
	}
	g.ended.Store(true)
	return nil, errCut
}

func (g *gone) DoWithTimeout(time.Duration, string, ...any) (any, error) { return nil, errCut }

// The last messages of a connection are handled before its registrations become void, and before Close returns.
func TestListenerHearsNothingAfterItsEnd(t *testing.T) {
	h := inHand(t)
	conn := &gone{reads: make(chan struct{}), closed: make(chan struct{})}
	h.s.store = store.New(&redis.Pool{Dial: func() (redis.Conn, error) { return conn, nil }}, store.DefaultPrefix)
	closing, cancel := context.WithCancel(t.Context())
	h.closing = closing
	go func() { <-conn.reads; cancel() }()
	h.s.listener.listen()
	if !conn.ended.Load() {
		t.Error("it still hears")
	}
}

// redisModel models Redis as a Dispatcher sees it, with the messages in flight in both directions.
type redisModel struct {
	*hand
	r        *rand.Rand
	topics   []string
	ready    map[readyQueue]int
	isListed map[readyQueue]bool
	others   bool                // another Client always waits, too
	told     map[readyQueue]bool // the other Client was woken for these
	heard    []readyQueue        // wake-ups for this Client in flight
	polls    []*poll             // in flight
	probes   []*probe            // in flight
	answers  []func()            // replies in flight
	guests   []*guest
}

// readyQueue is a topic's ready queue in a partition.
type readyQueue struct {
	partition *partition
	topic     string
}

func (m *redisModel) wake(q readyQueue) {
	switch {
	case m.ready[q] == 0:
	case m.isListed[q]:
		m.isListed[q] = false
		m.heard = append(m.heard, q)
	default:
		m.told[q] = true
	}
}

// do does what pop.lua does.
func (m *redisModel) do(one *poll) {
	p, room := store.Popped{Registered: one.Waiter != "", Remaining: make([]int, len(one.queues))}, one.N
	for i, l := range one.queues {
		q := readyQueue{one.partition, l.topic}
		want := min(room, one.limit(i))
		got := min(want, m.ready[q])
		p.Jobs = append(p.Jobs, jobs(l.topic, got)...)
		m.ready[q], room = m.ready[q]-got, room-got
		if want == 0 {
			continue
		}
		left := 0
		if got == want {
			left = -1
			if one.Always || m.isListed[q] || m.others {
				left = m.ready[q]
			}
			m.wake(q)
		}
		if left == 0 && p.Registered && (got < want || one.Always) {
			m.isListed[q] = true
		}
		if got > 0 {
			p.Remaining[i] = left
		}
	}
	m.answers = append(m.answers, func() { m.answer(one, p, nil) })
}

// check does what poll.lua does.
func (m *redisModel) check(s *probe) {
	lengths := map[string]int{}
	if s.check != nil {
		for i, l := range s.check.queues {
			q := readyQueue{s.partition, l.topic}
			if lengths[l.topic] = m.ready[q]; m.ready[q] == 0 && s.check.Since[i] >= 0 {
				m.isListed[q] = true
			}
		}
	}
	m.answers = append(m.answers, func() { m.finds(s, true, lengths, nil) })
}

// step delivers one message in flight, at random. It reports whether there was one.
func (m *redisModel) step() bool {
	m.mu.Lock()
	var passed []wakeUp
	for _, n := range m.nodes {
		passed, n.woken = append(passed, n.woken...), nil
	}
	m.mu.Unlock()
	for _, w := range passed {
		m.wake(readyQueue(w))
	}
	var can []func()
	for _, n := range m.nodes {
		if one := m.asksOf(n); one != nil {
			m.polls = append(m.polls, one)
		}
		m.probes = append(m.probes, m.probesOf(n)...)
	}
	if len(m.polls) > 0 {
		can = append(can, func() { m.do(pull(&m.polls, m.r)) })
	}
	if len(m.probes) > 0 {
		can = append(can, func() { m.check(pull(&m.probes, m.r)) })
	}
	if len(m.answers) > 0 {
		can = append(can, func() { pull(&m.answers, m.r)() })
	}
	if len(m.heard) > 0 {
		can = append(can, func() { q := pull(&m.heard, m.r); q.partition.wake(q.topic, 1) })
	}
	if len(can) > 0 {
		can[m.r.IntN(len(can))]()
	}
	return len(can) > 0
}

func pull[T any](list *[]T, r *rand.Rand) T {
	i := r.IntN(len(*list))
	one := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return one
}

// act simulates an outside event: a new job, or a caller that joins or leaves.
func (m *redisModel) act() {
	topics := slices.Clone(m.topics)
	m.r.Shuffle(len(topics), func(i, k int) { topics[i], topics[k] = topics[k], topics[i] })
	switch m.r.IntN(4) {
	case 0, 1:
		q := readyQueue{m.partitions[m.r.IntN(len(m.partitions))], topics[0]}
		m.ready[q]++
		m.told[q] = false
		m.wake(q)
	case 2:
		q := Request{Topics: topics[:1+m.r.IntN(len(topics))], N: 1 + m.r.IntN(3), Waits: m.r.IntN(4) > 0}
		q.Reserves = m.r.IntN(3) == 0
		for range q.Topics {
			q.Limits = append(q.Limits, 1+m.r.IntN(2))
		}
		m.guests = append(m.guests, m.joins(q))
	case 3:
		if len(m.guests) > 0 {
			m.leave(pull(&m.guests, m.r).caller, context.Canceled)
		}
	}
}

// Whatever the order of events and the number of partitions, once nothing is in flight: no caller waits for an available job,
// callers that do not wait have results, the client is registered where it expects to be, and unused wake-ups were passed to
// another Client.
func TestRandomOrders(t *testing.T) {
	for _, partitions := range [][]int{{1}, {3}, {1, 1}, {2, 3}} {
		for range 1000 {
			randomOrder(t, partitions, rand.Uint64())
		}
	}
}

func randomOrder(t *testing.T, partitions []int, seed uint64) {
	t.Helper()
	m := &redisModel{hand: inHands(t, partitions...), r: rand.New(rand.NewPCG(seed, 0)), topics: []string{"x", "y", "z"}, ready: map[readyQueue]int{}, isListed: map[readyQueue]bool{}, told: map[readyQueue]bool{}}
	m.others = m.r.IntN(2) == 0
	var all []*guest
	for range 60 {
		if m.r.IntN(3) == 0 {
			m.act()
		} else {
			m.step()
		}
		all = append(all, m.guests...)
	}
	for m.step() {
	}
	for _, g := range all {
		if !g.Waits && len(g.answers) == 0 {
			t.Fatalf("%v, seed %d: who does not wait for %q has no answer", partitions, seed, g.Topics)
		}
	}
	for q, n := range m.ready {
		if n > 0 && !m.told[q] {
			t.Fatalf("%v, seed %d: nobody was told of %d jobs of %s", partitions, seed, n, q.topic)
		}
	}
	for _, s := range m.partitions {
		for topic, l := range s.queues {
			q := readyQueue{s, topic}
			if l.callers > 0 && (m.ready[q] > 0 || !m.isListed[q]) || l.isRegistered() && !m.isListed[q] {
				t.Fatalf("%v, seed %d: %s: %d jobs, %d callers; isListed: %v, believed: %v", partitions, seed, topic, m.ready[q], l.callers, m.isListed[q], l.isRegistered())
			}
		}
	}
}
