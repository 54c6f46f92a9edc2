package wait

import "time"

// TestHooks are for the tests of this package and of the client only.
type TestHooks struct{ d *Dispatcher }

// ForTests returns the hooks.
func (d *Dispatcher) ForTests() TestHooks { return TestHooks{d} }

// State is what a Dispatcher knows about a topic.
type State struct {
	Callers    int
	Waiting    int // callers without a poll in flight that know that there is no job
	Unclaimed  int // callers without a poll in flight
	Leaving    int // callers that leave after the poll in flight for them
	Polls      int // in flight
	Wakes      int
	Registered bool
}

// State returns what is known about the topic.
func (h TestHooks) State(topic string) (s State) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	q := h.d.partitions[0].queues[topic]
	if q == nil {
		return s
	}
	s.Callers, s.Registered = q.callers, true
	for _, partition := range h.d.partitions {
		q := partition.queues[topic]
		s.Registered = s.Registered && q != nil && q.state == registered
		if q != nil {
			s.Wakes += q.wakes
		}
		if q != nil && q.state == polling {
			s.Polls++
		}
	}
	for p := q.first; p != nil; p = p.next {
		if p.caller.isFree() {
			s.Unclaimed++
		}
		if p.caller.waits() {
			s.Waiting++
		}
		if p.caller.leaving != nil {
			s.Leaving++
		}
	}
	return s
}

// Queues returns the number of known topics.
func (h TestHooks) Queues() int {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return len(h.d.partitions[0].queues)
}

// Polls reports whether the listener polls because this Redis user may not subscribe.
func (h TestHooks) Polls() bool { return h.d.partitions[0].listener.is(refused) }

// Checks returns the number of checks.
func (h TestHooks) Checks() int {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return h.d.partitions[0].listener.checks
}

// SubscribeAgain retries a refused subscription at the next check.
func (h TestHooks) SubscribeAgain() {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	h.d.partitions[0].listener.again = true
}

// Calm pretends that checks have long found nothing.
func (h TestHooks) Calm() {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	h.d.partitions[0].listener.lastHit = time.Now().Add(-calmAfter)
}
