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
	queues  map[string]int
	entered map[string]bool
	others  bool            // another Client stands behind us, always
	told    map[string]bool // it was told of the jobs that are there
	heard   []string        // topics that we are woken for, not yet received
	takes   []*take         // sent
	answers []func()        // on their way
	guests  []*guest
}

func (m *redisModel) wake(topic string) {
	switch {
	case m.queues[topic] == 0:
	case m.entered[topic]:
		m.entered[topic] = false
		m.heard = append(m.heard, topic)
	default:
		m.told[topic] = true
	}
}

// do is what pop.lua does.
func (m *redisModel) do(one *take) {
	p, room := store.Popped{Entered: one.enter.Waiter != "", Remaining: make([]int, len(one.lines))}, one.n
	for i, l := range one.lines {
		want := min(room, l.limit)
		got := min(want, m.queues[l.topic])
		p.Jobs = append(p.Jobs, jobs(l.topic, got)...)
		m.queues[l.topic], room = m.queues[l.topic]-got, room-got
		if want == 0 {
			continue
		}
		left := 0
		if got == want {
			left = -1
			if one.enter.Always || m.entered[l.topic] || m.others {
				left = m.queues[l.topic]
			}
			m.wake(l.topic)
		}
		if left == 0 && p.Entered && (got < want || one.enter.Always) {
			m.entered[l.topic] = true
		}
		if got > 0 {
			p.Remaining[i] = left
		}
	}
	m.answers = append(m.answers, func() { m.answer(one, p, nil) })
}

// step does one of what is under way, at random. It reports whether anything was.
func (m *redisModel) step() bool {
	for _, topic := range m.passed() {
		m.wake(topic)
	}
	var can []func()
	if one := m.asks(); one != nil {
		m.takes = append(m.takes, one)
	}
	if len(m.takes) > 0 {
		can = append(can, func() { m.do(pull(&m.takes, m.r)) })
	}
	if len(m.answers) > 0 {
		can = append(can, func() { pull(&m.answers, m.r)() })
	}
	if len(m.heard) > 0 {
		can = append(can, func() { m.s.wake(pull(&m.heard, m.r), 1) })
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
		m.queues[topics[0]]++
		m.told[topics[0]] = false
		m.wake(topics[0])
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

// In whatever order things happen, once nothing is under way any more no caller waits for a job that is there,
// who is believed to be entered is, and of jobs that we have no use for another Client was told.
func TestRandomOrders(t *testing.T) {
	for range 1500 {
		seed := rand.Uint64()
		m := &redisModel{hand: inHand(t), r: rand.New(rand.NewPCG(seed, 0)), topics: []string{"x", "y", "z"}, queues: map[string]int{}, entered: map[string]bool{}, told: map[string]bool{}}
		m.others = m.r.IntN(2) == 0
		for range 60 {
			if m.r.IntN(3) == 0 {
				m.act()
			} else {
				m.step()
			}
		}
		for m.step() {
		}
		for topic, n := range m.queues {
			if n > 0 && !m.told[topic] {
				t.Fatalf("seed %d: nobody was told of %d jobs of %s", seed, n, topic)
			}
		}
		for topic, l := range m.s.lines {
			if l.callers > 0 && (m.queues[topic] > 0 || !m.entered[topic]) || l.entered && !m.entered[topic] {
				t.Fatalf("seed %d: %s: %d jobs, %d callers; entered: %v, believed: %v", seed, topic, m.queues[topic], l.callers, m.entered[topic], l.entered)
			}
		}
	}
}
