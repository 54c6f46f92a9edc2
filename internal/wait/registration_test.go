package wait

import (
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// A poll registers the client if its callers wait. If other callers wait, it always registers. It does not register
// for callers that do not wait, nor without a subscription.
func TestRegister(t *testing.T) {
	for _, c := range []struct {
		name  string
		waits []bool // one per caller of the topic
		ready int    // if positive, the poll wants that many jobs
		state listenerState
		want  bool
		all   bool
	}{
		{"one who waits", []bool{true}, 0, subscribed, true, false},
		{"several who wait", []bool{true, true}, 0, subscribed, true, false},
		{"one who does not wait", []bool{false}, 0, subscribed, false, false},
		{"one of each", []bool{false, true}, 0, subscribed, true, false},
		{"fewer than wait", []bool{true, true}, 1, subscribed, true, true},
		{"for one who does not wait, before others", []bool{false, true}, 1, subscribed, true, true},
		{"not subscribed", []bool{true, true}, 1, unsubscribed, false, false},
		{"refused", []bool{true}, 0, refused, false, false},
	} {
		h := inHand(t)
		h.s.listener.state = c.state
		first := h.joins(Request{Topics: []string{"t"}, N: 1, Waits: c.waits[0]})
		first.joined = time.Now().Add(-time.Hour)
		for _, waits := range c.waits[1:] {
			h.joins(Request{Topics: []string{"t"}, N: 1, Waits: waits})
		}
		if c.ready > 0 {
			l := h.s.queues["t"]
			l.pending = nil
			l.on(woken, c.ready)
		}
		got := h.asks().Registration
		if (got.Waiter == h.s.listener.id) != c.want || got.Always != c.all {
			t.Errorf("%s: %+v", c.name, got)
		}
		if c.want && (got.Since < time.Hour || got.Since > time.Hour+time.Minute) {
			t.Errorf("%s: it has waited for %v", c.name, got.Since)
		}
	}
}

// When the subscription ends, registered queues become unknown. So do queues that the reply to an earlier
// poll or check reports as registered.
func TestEpochs(t *testing.T) {
	h := inHand(t)
	h.waiter("t", "u")
	h.settle()
	if h.stateOf("t") != "registered" || h.stateOf("u") != "registered" {
		t.Fatal(h.stateOf("t"), h.stateOf("u"))
	}
	queues := h.s.waited()
	q := h.s.listener.question(queues)
	h.s.wake("t", 1)
	one := h.asks()
	h.s.listener.close()
	h.mu.Lock()
	h.s.listener.changeState(subscribed)
	h.mu.Unlock()
	h.answer(one, store.Popped{Registered: true}, nil)
	h.learn(q, store.Polled{Lengths: []int{0, 0}, Registered: true, Added: make([]bool, 2)})
	if h.stateOf("t") != "unknown" || h.stateOf("u") != "unknown" {
		t.Error(h.stateOf("t"), h.stateOf("u"))
	}
	if queues := h.s.listener.news(); len(queues) != 2 {
		t.Errorf("%d queues are looked at once it is subscribed", len(queues))
	}
	if queues := h.s.listener.news(); queues != nil {
		t.Errorf("%d queues are looked at twice", len(queues))
	}
	h.check(true, nil)
	if h.stateOf("t") != "registered" || h.stateOf("u") != "registered" {
		t.Error(h.stateOf("t"), h.stateOf("u"))
	}
}

// A check registers the client for queues where its registration may be missing, with the start time of the first waiting caller.
// It also checks one other queue, to detect lost registrations.
func TestQuestion(t *testing.T) {
	h := inHand(t)
	names := map[string]int{}
	for _, topic := range []string{"unknown", "isListed", "long ago", "too", "as well"} {
		g := h.waiter(topic)
		g.joined = time.Now().Add(-time.Hour)
		h.waiter(topic)
		h.settle()
		l := h.s.queues[topic]
		if topic == "unknown" {
			l.on(unheard, 0)
		}
		if topic == "long ago" {
			l.registeredAt = time.Now().Add(-registerAgain - time.Second)
		}
		names[topic] = 0
	}
	const rounds = 300
	queues := h.s.waited()
	for range rounds {
		q := h.s.listener.question(queues)[0]
		if q.Waiter != h.s.listener.id {
			t.Fatalf("it is %q who waits", q.Waiter)
		}
		probes := 0
		for i, topic := range q.Topics {
			if q.Since[i] >= 0 {
				names[topic]++
				if topic != "unknown" && topic != "long ago" {
					probes++
				}
				if q.Since[i] < time.Hour || q.Since[i] > time.Hour+time.Minute {
					t.Errorf("%s: waits for %v", topic, q.Since[i])
				}
			}
		}
		if probes > 1 {
			t.Errorf("%d are probed", probes)
		}
	}
	for topic, n := range names {
		if all := topic == "unknown" || topic == "long ago"; all && n != rounds || !all && (n == 0 || n > rounds/2) {
			t.Errorf("%s: %d times out of %d", topic, n, rounds)
		}
	}
	for _, state := range []listenerState{unsubscribed, refused} {
		h.s.listener.state = state
		if q := h.s.listener.question(queues)[0]; q.Waiter != "" {
			t.Error("it is to be isListed though nobody would hear")
		}
	}
}

// If one registration is missing, others may be missing, too. All are made again.
func TestMissingEntry(t *testing.T) {
	h := inHand(t)
	h.waiter("t", "u", "v")
	h.settle()
	for h.s.listener.news() != nil { // messages from the start
	}
	h.checkOf([]*waitQueue{h.s.queues["t"]}, true, nil) // the probe finds the registration
	if got := h.stateOf("u"); got != "registered" || h.s.listener.news() != nil {
		t.Fatalf("u is %s though nothing is missing", got)
	}
	h.checkOf([]*waitQueue{h.s.queues["t"]}, true, nil, "t")
	if h.stateOf("t") != "registered" || h.stateOf("u") != "unknown" || h.stateOf("v") != "unknown" {
		t.Errorf("they are %s, %s, %s", h.stateOf("t"), h.stateOf("u"), h.stateOf("v"))
	}
	queues := h.s.listener.news()
	if len(queues) != 3 {
		t.Fatalf("%d queues are looked at then, want all", len(queues))
	}
	h.checkOf(queues, true, nil, "u", "v")
	if h.stateOf("u") != "registered" || h.stateOf("v") != "registered" || h.s.listener.news() != nil {
		t.Errorf("they are %s, %s then", h.stateOf("u"), h.stateOf("v"))
	}
}

// A message that arrives while a check is in flight is newer than its reply.
func TestMessageDuringACheck(t *testing.T) {
	h := inHand(t)
	h.waiter("t")
	h.answer(h.asks(), store.Popped{}, nil)
	queues := h.s.waited()
	q := h.s.listener.question(queues)
	h.s.wake("t", 1)
	h.learn(q, store.Polled{Lengths: []int{0}, Registered: true, Added: []bool{true}})
	if l := h.s.queues["t"]; l.state != ready || l.jobs != 1 {
		t.Errorf("%+v", l)
	}
	if h.ForTests().State("").Checks != 1 {
		t.Errorf("%d checks", h.ForTests().State("").Checks)
	}
}
