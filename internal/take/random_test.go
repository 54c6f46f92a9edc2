package take

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

// Who has left while a take was under way does not have Redis asked again and again while that is away.
func TestWhoHasLeftDoesNotAsk(t *testing.T) {
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

// A line that is not entered is looked at soon, also where the next look was not due for long.
func TestLookAfterAnError(t *testing.T) {
	h := inHand(t)
	e := h.s.listener
	h.waiter("t")
	one := h.asks()
	k := &looks{listener: e, next: time.Now().Add(slowLook), served: true, checked: time.Now()}
	h.answer(one, store.Popped{}, errCut)
	select {
	case <-e.changed:
	default:
		t.Fatal("the listener is not told")
	}
	if k.plan(); time.Until(k.next) > lookEvery {
		t.Errorf("it looks in %v", time.Until(k.next))
	}
}

// gone is a connection on which something is heard even after it was closed.
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

// What is still heard on a connection is heard before its entries are void, and before Close ends.
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

// A take that had no room for jobs of its last topic has learned nothing of that.
func TestTopicThatATakeDidNotReach(t *testing.T) {
	h := inHand(t)
	first := h.waiter("y", "z")
	h.settle()
	h.s.wake("z", 1)
	claims := h.asks()
	h.s.wake("y", 1) // all its callers are claimed
	if one := h.asks(); one != nil {
		t.Fatal("it is asked for nobody")
	}
	second := h.waiter("x", "y")
	h.answer(h.asks(), store.Popped{Jobs: jobs("x", 1)}, nil)
	second.expectJob(t, "x1")
	h.answer(claims, store.Popped{Entered: true}, nil)
	one := h.asks()
	if one == nil || !slices.Equal(one.topics(), []string{"y"}) {
		t.Fatal("nobody asks for the job of y")
	}
	h.answer(one, store.Popped{Jobs: jobs("y", 1)}, nil)
	first.expectJob(t, "y1")
}

// redisModel is Redis, as far as a Taker knows it, and what is under way to it and from it.
type redisModel struct {
	*hand
	r       *rand.Rand
	topics  []string
	queues  map[queue]int
	entered map[queue]bool
	others  bool           // another Client stands behind us, always
	told    map[queue]bool // it was told of the jobs that are there
	heard   []queue        // that we are woken for, not yet received
	takes   []*take        // sent
	surveys []*survey      // sent
	answers []func()       // on their way
	guests  []*guest
}

// queue is a topic's in a source.
type queue struct {
	source *source
	topic  string
}

func (m *redisModel) wake(q queue) {
	switch {
	case m.queues[q] == 0:
	case m.entered[q]:
		m.entered[q] = false
		m.heard = append(m.heard, q)
	default:
		m.told[q] = true
	}
}

// do is what pop.lua does.
func (m *redisModel) do(one *take) {
	p, room := store.Popped{Entered: one.enter.Waiter != "", Remaining: make([]int, len(one.lines))}, one.n
	for i, l := range one.lines {
		q := queue{one.source, l.topic}
		want := min(room, l.limit)
		got := min(want, m.queues[q])
		p.Jobs = append(p.Jobs, jobs(l.topic, got)...)
		m.queues[q], room = m.queues[q]-got, room-got
		if want == 0 {
			continue
		}
		left := 0
		if got == want {
			left = -1
			if one.enter.Always || m.entered[q] || m.others {
				left = m.queues[q]
			}
			m.wake(q)
		}
		if left == 0 && p.Entered && (got < want || one.enter.Always) {
			m.entered[q] = true
		}
		if got > 0 {
			p.Remaining[i] = left
		}
	}
	m.answers = append(m.answers, func() { m.answer(one, p, nil) })
}

// lookAt is what look.lua does.
func (m *redisModel) lookAt(s *survey) {
	lengths := map[string]int{}
	if s.look != nil {
		for i, l := range s.look.lines {
			q := queue{s.source, l.topic}
			if lengths[l.topic] = m.queues[q]; m.queues[q] == 0 && s.look.Since[i] >= 0 {
				m.entered[q] = true
			}
		}
	}
	m.answers = append(m.answers, func() { m.finds(s, true, lengths, nil) })
}

// step does one of what is under way, at random. It reports whether anything was.
func (m *redisModel) step() bool {
	m.mu.Lock()
	var passed []wakeUp
	for _, n := range m.nodes {
		passed, n.woken = append(passed, n.woken...), nil
	}
	m.mu.Unlock()
	for _, w := range passed {
		m.wake(queue(w))
	}
	var can []func()
	for _, n := range m.nodes {
		if one := m.asksOf(n); one != nil {
			m.takes = append(m.takes, one)
		}
		m.surveys = append(m.surveys, m.surveysOf(n)...)
	}
	if len(m.takes) > 0 {
		can = append(can, func() { m.do(pull(&m.takes, m.r)) })
	}
	if len(m.surveys) > 0 {
		can = append(can, func() { m.lookAt(pull(&m.surveys, m.r)) })
	}
	if len(m.answers) > 0 {
		can = append(can, func() { pull(&m.answers, m.r)() })
	}
	if len(m.heard) > 0 {
		can = append(can, func() { q := pull(&m.heard, m.r); q.source.wake(q.topic, 1) })
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

// act is something from outside: a job, or a caller who comes or leaves.
func (m *redisModel) act() {
	topics := slices.Clone(m.topics)
	m.r.Shuffle(len(topics), func(i, k int) { topics[i], topics[k] = topics[k], topics[i] })
	switch m.r.IntN(4) {
	case 0, 1:
		q := queue{m.sources[m.r.IntN(len(m.sources))], topics[0]}
		m.queues[q]++
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

// In whatever order things happen, with however many sources, once nothing is under way any more no caller waits for a
// job that is there, who does not wait has an answer, who is believed to be entered is, and of jobs that we have no use
// for another Client was told.
func TestRandomOrders(t *testing.T) {
	for _, sources := range [][]int{{1}, {3}, {1, 1}, {2, 3}} {
		for range 1000 {
			randomOrder(t, sources, rand.Uint64())
		}
	}
}

func randomOrder(t *testing.T, sources []int, seed uint64) {
	t.Helper()
	m := &redisModel{hand: inHands(t, sources...), r: rand.New(rand.NewPCG(seed, 0)), topics: []string{"x", "y", "z"}, queues: map[queue]int{}, entered: map[queue]bool{}, told: map[queue]bool{}}
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
			t.Fatalf("%v, seed %d: who does not wait for %q has no answer", sources, seed, g.Topics)
		}
	}
	for q, n := range m.queues {
		if n > 0 && !m.told[q] {
			t.Fatalf("%v, seed %d: nobody was told of %d jobs of %s", sources, seed, n, q.topic)
		}
	}
	for _, s := range m.sources {
		for topic, l := range s.lines {
			q := queue{s, topic}
			if l.callers > 0 && (m.queues[q] > 0 || !m.entered[q]) || l.entered && !m.entered[q] {
				t.Fatalf("%v, seed %d: %s: %d jobs, %d callers; entered: %v, believed: %v", sources, seed, topic, m.queues[q], l.callers, m.entered[q], l.entered)
			}
		}
	}
}
