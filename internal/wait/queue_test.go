package wait

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

var names = map[state]string{unknown: "unknown", ready: "ready", polling: "polling", registered: "registered", throttled: "throttled"}

// stateOf names the topic's state, with a + if it is about to be polled.
func (h *hand) stateOf(topic string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.s.queues[topic]
	if l == nil {
		return "unknown"
	}
	name := names[l.state]
	if h.s.Waiting() && len(h.s.turns) > 0 {
		name += "+"
	}
	return name
}

// The table in the package comment: the states of a topic with callers and the events that change
// them.
func TestStates(t *testing.T) {
	var one *poll
	states := map[string]func(*hand) *guest{
		"unknown": func(h *hand) *guest {
			g := h.waiter("t")
			h.answer(h.asks(), store.Popped{}, errCut)
			return g
		},
		"ready": func(h *hand) *guest {
			g := h.waiter("t")
			h.settle()
			h.s.wake("t", 1)
			return g
		},
		"polling": func(h *hand) *guest {
			g := h.waiter("t")
			one = h.asks()
			return g
		},
		"registered": func(h *hand) *guest {
			g := h.waiter("t")
			h.settle()
			return g
		},
	}
	answers := func(p store.Popped, err error) func(*hand, *guest) {
		return func(h *hand, _ *guest) { h.answer(one, p, err) }
	}
	leaves := func(h *hand, g *guest) { h.leave(g.caller, store.ErrEmpty) }
	joins := func(h *hand, _ *guest) { h.waiter("t") }
	asks := func(h *hand, _ *guest) { h.joins(Request{Topics: []string{"t"}, N: 1}) }
	woken := func(h *hand, _ *guest) { h.s.wake("t", 2) }
	finds := func(jobs int, isListed bool) func(*hand, *guest) {
		return func(h *hand, _ *guest) { h.check(isListed, map[string]int{"t": jobs}) }
	}
	ends := func(h *hand, _ *guest) { h.s.listener.close() }
	then := func(events ...func(*hand, *guest)) func(*hand, *guest) {
		return func(h *hand, g *guest) {
			for _, event := range events {
				event(h, g)
			}
		}
	}
	none, got := store.Popped{Registered: true}, store.Popped{Jobs: jobs("t", 1)}
	some := store.Popped{Jobs: jobs("t", 1), Remaining: []int{3}}
	for _, c := range []struct {
		state, event string
		do           func(*hand, *guest)
		want         string
		passed       bool
	}{
		{"unknown", "a caller asks", asks, "unknown+", false},
		{"unknown", "a caller who waits joins", joins, "unknown+", false},
		{"unknown", "woken", woken, "ready+", false},
		{"unknown", "a check finds jobs", finds(2, true), "ready+", false},
		{"unknown", "a check finds none, and enters", finds(0, true), "registered", false},
		{"unknown", "a check finds none, and can't enter", finds(0, false), "unknown", false},

		{"ready", "a caller asks", asks, "ready+", false},
		{"ready", "the caller leaves", leaves, "unknown", true},

		{"polling", "the caller leaves", leaves, "polling", false},
		{"polling", "brought all, none are left", then(joins, answers(got, nil)), "unknown+", false},
		{"polling", "brought all, some are left", then(joins, answers(some, nil)), "ready+", false},
		{"polling", "brought less, and we were isListed", answers(none, nil), "registered", false},
		{"polling", "brought less, and we were not", answers(store.Popped{}, nil), "unknown", false},
		{"polling", "brought less, as it stopped early", answers(store.Popped{More: true, Registered: true}, nil), "ready+", false},
		{"polling", "woken, then brought less", then(woken, answers(none, nil)), "ready+", false},
		{"polling", "woken, then failed", then(woken, answers(store.Popped{}, errCut)), "ready+", false},
		{"polling", "a check finds jobs, then brought less", then(finds(2, true), answers(none, nil)), "ready+", false},
		{"polling", "the subscription ends, then brought less", then(ends, answers(none, nil)), "unknown", false},
		{"polling", "the caller leaves, then brought less", then(leaves, answers(none, nil)), "registered", false},
		{"polling", "woken, the caller leaves, then brought less", then(woken, leaves, answers(none, nil)), "unknown", true},
		{"polling", "woken, the caller leaves, then failed", then(woken, leaves, answers(store.Popped{}, errCut)), "unknown", true},
		{"polling", "woken, then brought all", then(woken, answers(got, nil)), "unknown", true},
		{"polling", "a check finds jobs, the caller leaves", then(finds(1, true), leaves, answers(none, nil)), "unknown", false},

		{"registered", "a caller asks", asks, "registered+", false},
		{"registered", "woken", woken, "ready+", false},
		{"registered", "a check finds jobs", finds(2, true), "ready+", false},
		{"registered", "the caller leaves, woken", then(leaves, woken), "unknown", true},
		{"registered", "the caller leaves, the subscription ends", then(leaves, ends), "unknown", false},
	} {
		t.Run(c.state+", "+c.event, func(t *testing.T) {
			h := inHand(t)
			g := states[c.state](h)
			if got := h.stateOf("t"); got != c.state && got != c.state+"+" {
				t.Fatalf("it begins as %s", got)
			}
			c.do(h, g)
			if got := h.stateOf("t"); got != c.want {
				t.Errorf("it is %s then, want %s", got, c.want)
			}
			if got := len(h.passed()) == 1; got != c.passed {
				t.Errorf("passed on: %v, want %v", got, c.passed)
			}
		})
	}
}

// The probable number of jobs in a queue after a poll. Messages that arrived while the poll was in flight
// are newer than its reply.
func TestLearn(t *testing.T) {
	for _, c := range []struct {
		name        string
		asked, got  int
		left        int
		more, heard bool
		err         error
		ready       int // number of jobs expected
		want        int
		isEmpty     bool
		isListed    bool // registered, according to the reply
	}{
		{name: "as many as were asked for, some are left", asked: 3, got: 3, left: 2, want: 2},
		{name: "as many as were asked for", asked: 3, got: 3, ready: 5, want: 0, isListed: true},
		{name: "fewer", asked: 3, got: 2, ready: 3, want: 0, isEmpty: true, isListed: true},
		{name: "none", asked: 1, ready: 3, want: 0, isEmpty: true, isListed: true},
		{name: "stopped early", asked: 3, got: 2, more: true, want: 1},
		{name: "stopped early, some are left", asked: 3, got: 2, left: 4, more: true, want: 4},
		{name: "failed", asked: 1, err: errCut, ready: 3, want: 0},
		{name: "heard meanwhile, as many as were asked for", asked: 3, got: 3, left: 2, heard: true, ready: 1, want: 1},
		{name: "heard meanwhile, none", asked: 1, heard: true, ready: 1, want: 1, isEmpty: true},
		{name: "heard meanwhile, failed", asked: 1, err: errCut, heard: true, ready: 1, want: 1},
	} {
		for _, isListed := range []bool{false, true} {
			h := inHand(t)
			q := h.s.queue("t")
			q.on(woken, c.ready)
			one := &poll{Wanted: store.Wanted{N: c.asked, Registration: store.Registration{Always: true}}, partition: h.s, queues: []polledQueue{{q, q.wakes}}, epoch: h.s.listener.epoch}
			if q.on(sent, 0); c.heard {
				q.on(woken, c.ready)
			}
			isEmpty := one.learn(store.Popped{Jobs: jobs("t", c.got), Remaining: []int{c.left}, Registered: isListed, More: c.more}, c.err)
			q.on(ended, 0)
			if q.jobs != c.want || isEmpty != c.isEmpty || q.isRegistered() != (isListed && c.isListed) {
				t.Errorf("%s: %d jobs are believed to be there, it is empty: %v, registered: %v; want %d, %v", c.name, q.jobs, isEmpty, q.isRegistered(), c.want, c.isEmpty)
			}
			if want := c.heard || c.err != nil; q.told != want {
				t.Errorf("%s: it is to be passed on: %v, want %v", c.name, q.told, want)
			}
			if q.isRegistered() && time.Since(q.registeredAt) > time.Minute {
				t.Errorf("%s: it does not know since when it is registered", c.name)
			}
		}
	}
}

// Callers of one topic are served in the order of their arrival, also by polls for fewer jobs than there are
// callers. Claimed callers are skipped.
func TestCallersInOrder(t *testing.T) {
	h := inHand(t)
	var guests []*guest
	for range 5 {
		guests = append(guests, h.waiter("t"))
	}
	one := h.asks()
	if one.N != 5 || len(one.claims) != 5 || one.limit(0) != 5 || h.asks() != nil {
		t.Fatalf("the poll is for %d jobs of %d callers", one.N, len(one.claims))
	}
	h.answer(one, store.Popped{Jobs: jobs("t", 2), Registered: true}, nil)
	guests[0].expectJob(t, "t1")
	guests[1].expectJob(t, "t2")
	guests[2].expectWaits(t)
	h.s.wake("t", 2)
	if one = h.asks(); one.N != 2 || one.claims[0].caller != guests[2].caller {
		t.Fatalf("the poll is for %d jobs, the first of its callers is the third: %v", one.N, one.claims[0].caller == guests[2].caller)
	}
	h.leave(guests[2].caller, store.ErrEmpty) // claimed: it gets the result in flight
	h.answer(one, store.Popped{Jobs: jobs("t", 1), Registered: true}, nil)
	guests[2].expectJob(t, "t1")
	guests[3].expectWaits(t)
	h.leave(guests[3].caller, store.ErrEmpty)
	guests[3].expectErr(t, store.ErrEmpty)
	h.s.wake("t", 9)
	h.answer(h.asks(), store.Popped{Jobs: jobs("t", 1), Registered: true}, nil)
	guests[4].expectJob(t, "t1")
	h.s.Waiting() // starts its turn
	if l := h.s.queues["t"]; l != nil {
		t.Errorf("a queue that nobody waits in, and that we are not isListed for, is kept: %+v", l)
	}
}

// When a caller leaves, the others keep their order.
func TestLeavingAQueue(t *testing.T) {
	for gone := range 3 {
		h := inHand(t)
		guests := []*guest{h.waiter("t"), h.waiter("t"), h.waiter("t")}
		h.settle()
		h.leave(guests[gone].caller, store.ErrEmpty)
		guests[gone].expectErr(t, store.ErrEmpty)
		guests = append(slices.Delete(guests, gone, gone+1), h.waiter("t"))
		h.s.wake("t", 3)
		h.answer(h.asks(), store.Popped{Jobs: jobs("t", 3)}, nil)
		for i, g := range guests {
			g.expectJob(t, fmt.Sprint("t", i+1))
		}
	}
}

// A poll takes jobs in one mode, the first caller's. Callers with another mode are served by the
// next poll.
func TestKindsOfAQueue(t *testing.T) {
	h := inHand(t)
	pops := Request{Topics: []string{"t"}, N: 1, Waits: true}
	reserves := pops
	reserves.Kind = Kind{Reserves: true, Reservation: store.Reservation{Lease: time.Minute}}
	a, b, c := h.joins(pops), h.joins(reserves), h.joins(pops)
	first := h.asks()
	if first.Reserves || len(first.claims) != 2 || first.claims[1].caller != c.caller {
		t.Fatalf("%+v", first)
	}
	h.answer(first, store.Popped{Jobs: jobs("t", 2), Remaining: []int{1}}, nil)
	a.expectJob(t, "t1")
	c.expectJob(t, "t2")
	second := h.asks()
	if second.Kind != reserves.Kind || second.claims[0].caller != b.caller {
		t.Fatalf("%+v", second)
	}
	leases := []store.Lease{{Token: 7}}
	second.sentAt = time.Unix(5, 0)
	h.answer(second, store.Popped{Jobs: jobs("t", 1), Leases: leases}, nil)
	if got := (<-b.answers).Jobs; len(got.Leases) != 1 || got.Leases[0] != leases[0] || got.AskedAt != second.sentAt {
		t.Errorf("%+v", got)
	}
}

// A caller of several jobs gets all available jobs up to its limit.
func TestCallersWantSeveral(t *testing.T) {
	h := inHand(t)
	r := Request{Topics: []string{"t"}, N: 3, Waits: true}
	a, b, c := h.joins(r), h.joins(r), h.joins(r)
	one := h.asks()
	if one.N != 9 {
		t.Fatalf("the poll is for %d jobs", one.N)
	}
	h.answer(one, store.Popped{Jobs: jobs("t", 5), Leases: make([]store.Lease, 5)}, nil)
	for i, g := range []*guest{a, b} {
		got := (<-g.answers).Jobs
		if want := 3 - i; len(got.Jobs) != want || len(got.Leases) != want || got.Jobs[0].ID != fmt.Sprint("t", 3*i+1) {
			t.Errorf("%+v", got)
		}
	}
	c.expectWaits(t)
}

// A poll wants as many jobs as the queue probably has, or MaxPop if a caller needs to learn whether there is
// one.
func TestWantedByAQueue(t *testing.T) {
	h := inHand(t)
	for range store.MaxPop + 10 {
		h.waiter("t")
	}
	if one := h.asks(); one.N != store.MaxPop || len(one.claims) != store.MaxPop || one.limit(0) != store.MaxPop {
		t.Errorf("%d jobs for %d callers", one.N, len(one.claims))
	} else {
		h.answer(one, store.Popped{Registered: true}, nil)
	}
	h.settle()
	for _, ready := range []int{1, 3} {
		h.s.wake("t", ready)
		if one := h.asks(); one.N != ready {
			t.Errorf("%d jobs are asked for, want %d", one.N, ready)
		} else {
			h.answer(one, store.Popped{Registered: true}, nil)
		}
	}
	h.s.wake("t", 3)
	h.joins(Request{Topics: []string{"t"}, N: 1})
	if one := h.asks(); one.N != store.MaxPop {
		t.Errorf("%d jobs are asked for though somebody asks", one.N)
	}
	wide := inHand(t)
	wide.joins(Request{Topics: []string{"t"}, N: store.MaxPop - 1, Waits: true})
	wide.joins(Request{Topics: []string{"t"}, N: store.MaxPop, Waits: true})
	if one := wide.asks(); one.N != store.MaxPop || len(one.claims) != 2 {
		t.Errorf("%d jobs for %d callers", one.N, len(one.claims))
	}
}

// A caller that does not wait, behind callers that wait, learns that there is no job from a poll sent after it
// arrived.
func TestPollingBehindOthers(t *testing.T) {
	h := inHand(t)
	ahead := h.waiter("t")
	first := h.asks()
	asks := h.joins(Request{Topics: []string{"t"}, N: 1})
	h.answer(first, store.Popped{}, nil) // sent before it arrived
	asks.expectWaits(t)
	h.answer(h.asks(), store.Popped{Jobs: jobs("t", 1)}, nil)
	ahead.expectJob(t, "t1")
	asks.expectErr(t, store.ErrEmpty)

	for range store.MaxPop {
		h.waiter("u")
	}
	asks = h.joins(Request{Topics: []string{"u"}, N: 1})
	one := h.asks()
	if slices.ContainsFunc(one.claims, func(c claim) bool { return c.caller == asks.caller }) {
		t.Fatal("the poll is for him, too")
	}
	h.answer(one, store.Popped{}, errBroken) // the caller gets this error
	asks.expectErr(t, errBroken)
	for range store.MaxPop {
		h.waiter("v")
	}
	asks = h.joins(Request{Topics: []string{"v"}, N: 1})
	h.answer(h.asks(), store.Popped{Jobs: jobs("v", store.MaxPop)}, nil)
	asks.expectWaits(t)
	if one = h.asks(); one == nil || one.claims[0].caller != asks.caller {
		t.Fatalf("he is not asked for once it is his turn: %+v", one)
	}
	h.joins(Request{Topics: []string{"u"}, N: 1})
	if h.asks() == nil {
		t.Fatal("he is not asked for")
	}
}

// Queues without callers are kept for a while, because the client may still be woken for them, and then dropped.
// A wake-up for such a queue is passed on.
func TestForget(t *testing.T) {
	h := inHand(t)
	for _, topic := range []string{"waited", "left", "left lately", "polling", "queued"} {
		g := h.waiter(topic)
		h.settle()
		switch topic {
		case "polling":
			h.s.wake(topic, 1)
			h.asks()
		case "queued":
			h.s.wake(topic, 1)
			h.leave(g.caller, store.ErrEmpty)
		case "left", "left lately":
			h.leave(g.caller, store.ErrEmpty)
		}
		if topic != "left lately" {
			h.s.queues[topic].left = time.Now().Add(-lingerFor)
		}
	}
	h.passed()
	h.mu.Lock()
	h.s.forget(lingerFor)
	h.mu.Unlock()
	for topic, want := range map[string]bool{"waited": true, "left": false, "left lately": true, "polling": true, "queued": true} {
		if got := h.s.queues[topic] != nil; got != want {
			t.Errorf("%s: known %v", topic, got)
		}
	}
	h.s.wake("left", 1)
	h.s.wake("left lately", 1)
	h.expectPassed("forgotten, and without callers", "left", "left lately")
	if h.s.queues["left"] != nil {
		t.Error("what is passed on is known")
	}
	if h.asks() != nil || h.s.queues["queued"] != nil {
		t.Error("a queue without callers is asked, or kept for ever")
	}
}

// The table in the package comment: each state and each event. During a poll, an event changes the state that follows.
func TestTransitions(t *testing.T) {
	const none = 0
	events := []struct {
		event event
		name  string
		jobs  int
		// the state after unknown, ready with 2 jobs, registered and throttled
		want [4]state
		left [4]int // jobs
	}{
		{left, "an answer: some are left", 3, [4]state{ready, ready, ready, throttled}, [4]int{3, 3, 3, 3}},
		{left, "an answer: none are left", none, [4]state{unknown, unknown, unknown, throttled}, [4]int{}},
		{failed, "an error", none, [4]state{unknown, unknown, unknown, throttled}, [4]int{}},
		{empty, "it is empty, and we are registered", none, [4]state{registered, registered, registered, registered}, [4]int{}},
		{limited, "an answer: throttled", none, [4]state{throttled, throttled, throttled, throttled}, [4]int{}},
		{woken, "woken", 1, [4]state{ready, ready, ready, ready}, [4]int{1, 2, 1, 1}},
		{foundJobs, "a check finds jobs", 5, [4]state{ready, ready, ready, throttled}, [4]int{5, 5, 5, 0}},
		{unheard, "the subscription ends", none, [4]state{unknown, ready, unknown, unknown}, [4]int{0, 2, 0, 0}},
		{sentAmong, "a poll of several topics", none, [4]state{unknown, ready, unknown, throttled}, [4]int{0, 2, 0, 0}},
		{expired, "the time is over", 7, [4]state{ready, ready, ready, ready}, [4]int{7, 7, 7, 7}},
		{abandoned, "the last caller leaves", none, [4]state{unknown, unknown, registered, throttled}, [4]int{}},
	}
	begin := func(s state) *waitQueue {
		q := &waitQueue{state: s}
		switch s {
		case ready:
			q.jobs = 2
		case throttled:
			q.throttle = &throttle{time.NewTimer(time.Hour)}
		}
		return q
	}
	for i, s := range []state{unknown, ready, registered, throttled} {
		for _, e := range events {
			q := begin(s)
			q.on(e.event, e.jobs)
			if q.state != e.want[i] || q.jobs != e.left[i] || q.throttle != nil && (q.state != throttled || e.event == limited) {
				t.Errorf("%s, %s: %s with %d jobs, %v, want %s with %d", names[s], e.name, names[q.state], q.jobs, q.throttle, names[e.want[i]], e.left[i])
			}
			if told := q.told; told != (e.event == woken) {
				t.Errorf("%s, %s: told %v", names[s], e.name, told)
			}
			if moved := q.wakes > 0; moved != (e.event == woken || e.event == foundJobs && s != throttled) || q.byCheck != (e.event == foundJobs && s != throttled) {
				t.Errorf("%s, %s: %d wakes, by a check %v", names[s], e.name, q.wakes, q.byCheck)
			}
			if e.event == abandoned {
				continue // has no effect during a poll
			}
			q = begin(s)
			q.on(sent, none)
			if q.state != polling || q.jobs != 0 {
				t.Fatalf("%s, sent: %s with %d jobs", names[s], names[q.state], q.jobs)
			}
			q.on(e.event, e.jobs)
			if q.state != polling {
				t.Errorf("%s, sent, %s: %s", names[s], e.name, names[q.state])
			}
			want, jobs := e.want[i], e.left[i]
			if s != throttled { // resets what was known
				want, jobs = e.want[0], e.left[0]
			}
			if q.on(ended, none); q.state != want || q.jobs != jobs || (q.throttle != nil) != (s == throttled && want == throttled && e.event != limited) {
				t.Errorf("%s, sent, %s, ended: %s with %d jobs, %v, want %s with %d", names[s], e.name, names[q.state], q.jobs, q.throttle, names[want], jobs)
			}
		}
	}
	q := begin(ready)
	q.on(sent, none)
	q.on(woken, 1)
	if q.on(abandoned, none); q.state != polling || q.jobs != 1 || !q.told {
		t.Errorf("polling, the last caller leaves: %+v", q)
	}
	q = begin(throttled)
	q.on(left, 1) // callers that pop
	if q.on(unheard, none); q.state != ready {
		t.Errorf("throttled with jobs for those who pop, the subscription ends: %s", names[q.state])
	}
	q = begin(throttled)
	q.told, q.byCheck = true, true
	if q.on(failed, none); !q.told || q.byCheck {
		t.Errorf("an error: told %v, by a check %v; the wake-up is to be passed on", q.told, q.byCheck)
	}
}
