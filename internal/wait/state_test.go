package wait

import (
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

// beginnings bring the topic into a state.
var beginnings = map[string]func(*hand) *guest{
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
		h.one = h.asks()
		return g
	},
	"registered": func(h *hand) *guest {
		g := h.waiter("t")
		h.settle()
		return g
	},
}

func byAnswer(p store.Popped, err error) func(*hand, *guest) {
	return func(h *hand, _ *guest) { h.answer(h.one, p, err) }
}

func callerLeaves(h *hand, g *guest) { h.leave(g.caller, store.ErrEmpty) }

func callerJoins(h *hand, _ *guest) { h.waiter("t") }

func callerAsks(h *hand, _ *guest) { h.joins(Request{Topics: []string{"t"}, N: 1}) }

func isWoken(h *hand, _ *guest) { h.s.wake("t", 2) }

func checkFinds(jobs int, isListed bool) func(*hand, *guest) {
	return func(h *hand, _ *guest) { h.check(isListed, map[string]int{"t": jobs}) }
}

func subscriptionEnds(h *hand, _ *guest) { h.s.listener.close() }

func inOrder(events ...func(*hand, *guest)) func(*hand, *guest) {
	return func(h *hand, g *guest) {
		for _, event := range events {
			event(h, g)
		}
	}
}

var (
	noneLeft = store.Popped{Registered: true}
	gotOne   = store.Popped{Jobs: jobs("t", 1)}
	someLeft = store.Popped{Jobs: jobs("t", 1), Remaining: []int{3}}
)

var stateEvents = []struct {
	state, event string
	do           func(*hand, *guest)
	want         string
	passed       bool
}{
	{"unknown", "a caller asks", callerAsks, "unknown+", false},
	{"unknown", "a caller who waits joins", callerJoins, "unknown+", false},
	{"unknown", "woken", isWoken, "ready+", false},
	{"unknown", "a check finds jobs", checkFinds(2, true), "ready+", false},
	{"unknown", "a check finds none, and enters", checkFinds(0, true), "registered", false},
	{"unknown", "a check finds none, and can't enter", checkFinds(0, false), "unknown", false},

	{"ready", "a caller asks", callerAsks, "ready+", false},
	{"ready", "the caller leaves", callerLeaves, "unknown", true},

	{"polling", "the caller leaves", callerLeaves, "polling", false},
	{"polling", "brought all, none are left", inOrder(callerJoins, byAnswer(gotOne, nil)), "unknown+", false},
	{"polling", "brought all, some are left", inOrder(callerJoins, byAnswer(someLeft, nil)), "ready+", false},
	{"polling", "brought less, and we were isListed", byAnswer(noneLeft, nil), "registered", false},
	{"polling", "brought less, and we were not", byAnswer(store.Popped{}, nil), "unknown", false},
	{"polling", "brought less, as it stopped early", byAnswer(store.Popped{More: true, Registered: true}, nil), "ready+", false},
	{"polling", "woken, then brought less", inOrder(isWoken, byAnswer(noneLeft, nil)), "ready+", false},
	{"polling", "woken, then failed", inOrder(isWoken, byAnswer(store.Popped{}, errCut)), "ready+", false},
	{"polling", "a check finds jobs, then brought less", inOrder(checkFinds(2, true), byAnswer(noneLeft, nil)), "ready+", false},
	{"polling", "the subscription ends, then brought less", inOrder(subscriptionEnds, byAnswer(noneLeft, nil)), "unknown", false},
	{"polling", "the caller leaves, then brought less", inOrder(callerLeaves, byAnswer(noneLeft, nil)), "registered", false},
	{"polling", "woken, the caller leaves, then brought less", inOrder(isWoken, callerLeaves, byAnswer(noneLeft, nil)), "unknown", true},
	{"polling", "woken, the caller leaves, then failed", inOrder(isWoken, callerLeaves, byAnswer(store.Popped{}, errCut)), "unknown", true},
	{"polling", "woken, then brought all", inOrder(isWoken, byAnswer(gotOne, nil)), "unknown", true},
	{"polling", "a check finds jobs, the caller leaves", inOrder(checkFinds(1, true), callerLeaves, byAnswer(noneLeft, nil)), "unknown", false},

	{"registered", "a caller asks", callerAsks, "registered+", false},
	{"registered", "woken", isWoken, "ready+", false},
	{"registered", "a check finds jobs", checkFinds(2, true), "ready+", false},
	{"registered", "the caller leaves, woken", inOrder(callerLeaves, isWoken), "unknown", true},
	{"registered", "the caller leaves, the subscription ends", inOrder(callerLeaves, subscriptionEnds), "unknown", false},
}

// The table in the package comment: the states of a topic with callers and the events that change
// them.
func TestStates(t *testing.T) {
	for _, c := range stateEvents {
		t.Run(c.state+", "+c.event, func(t *testing.T) {
			h := inHand(t)
			g := beginnings[c.state](h)
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

const noJobs = 0

var transitions = []struct {
	event event
	name  string
	jobs  int
	// the state after unknown, ready with 2 jobs, registered and throttled
	want [4]state
	left [4]int // jobs
}{
	{left, "an answer: some are left", 3, [4]state{ready, ready, ready, throttled}, [4]int{3, 3, 3, 3}},
	{left, "an answer: none are left", noJobs, [4]state{unknown, unknown, unknown, throttled}, [4]int{}},
	{failed, "an error", noJobs, [4]state{unknown, unknown, unknown, throttled}, [4]int{}},
	{empty, "it is empty, and we are registered", noJobs, [4]state{registered, registered, registered, registered}, [4]int{}},
	{limited, "an answer: throttled", noJobs, [4]state{throttled, throttled, throttled, throttled}, [4]int{}},
	{woken, "woken", 1, [4]state{ready, ready, ready, ready}, [4]int{1, 2, 1, 1}},
	{foundJobs, "a check finds jobs", 5, [4]state{ready, ready, ready, throttled}, [4]int{5, 5, 5, 0}},
	{unheard, "the subscription ends", noJobs, [4]state{unknown, ready, unknown, unknown}, [4]int{0, 2, 0, 0}},
	{sentAmong, "a poll of several topics", noJobs, [4]state{unknown, ready, unknown, throttled}, [4]int{0, 2, 0, 0}},
	{expired, "the time is over", 7, [4]state{ready, ready, ready, ready}, [4]int{7, 7, 7, 7}},
	{abandoned, "the last caller leaves", noJobs, [4]state{unknown, unknown, registered, throttled}, [4]int{}},
}

// The table in the package comment: each state and each event. During a poll, an event changes the state that follows.
func TestTransitions(t *testing.T) {
	for i, s := range []state{unknown, ready, registered, throttled} {
		for _, e := range transitions {
			q := queueIn(s)
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
			q = queueIn(s)
			q.on(sent, noJobs)
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
			if q.on(ended, noJobs); q.state != want || q.jobs != jobs || (q.throttle != nil) != (s == throttled && want == throttled && e.event != limited) {
				t.Errorf("%s, sent, %s, ended: %s with %d jobs, %v, want %s with %d", names[s], e.name, names[q.state], q.jobs, q.throttle, names[want], jobs)
			}
		}
	}
}

// queueIn returns a queue in this state.
func queueIn(s state) *waitQueue {
	q := &waitQueue{state: s}
	switch s {
	case ready:
		q.jobs = 2
	case throttled:
		q.throttle = &throttle{time.NewTimer(time.Hour)}
	}
	return q
}

// What several events in a row leave.
func TestTransitionsInARow(t *testing.T) {
	q := queueIn(ready)
	q.on(sent, noJobs)
	q.on(woken, 1)
	if q.on(abandoned, noJobs); q.state != polling || q.jobs != 1 || !q.told {
		t.Errorf("polling, the last caller leaves: %+v", q)
	}
	q = queueIn(throttled)
	q.on(left, 1) // callers that pop
	if q.on(unheard, noJobs); q.state != ready {
		t.Errorf("throttled with jobs for those who pop, the subscription ends: %s", names[q.state])
	}
	q = queueIn(throttled)
	q.told, q.byCheck = true, true
	if q.on(failed, noJobs); !q.told || q.byCheck {
		t.Errorf("an error: told %v, by a check %v; the wake-up is to be passed on", q.told, q.byCheck)
	}
}
