package wait

import "time"

// TestHooks are what the tests of this package and of the client see, and change. Nothing else uses them.
type TestHooks struct{ d *Dispatcher }

// ForTests returns the hooks.
func (d *Dispatcher) ForTests() TestHooks { return TestHooks{d} }

// State is what a Dispatcher knows of a topic.
type State struct {
	Callers    int
	Waiting    int // of the callers: no poll is under way for them, and they have been told that there is no job
	Unclaimed  int // no poll is under way for them
	Leaving    int // would have left if none were
	Polls      int // under way
	Wakes      int
	Registered bool
}

// State returns what is known of the topic.
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

// Queues is how many topics something is known of.
func (h TestHooks) Queues() int {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return len(h.d.partitions[0].queues)
}

// Polls reports whether this Redis user may not subscribe.
func (h TestHooks) Polls() bool { return h.d.partitions[0].listener.is(refused) }

// Checks is how often queues were looked at.
func (h TestHooks) Checks() int {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	return h.d.partitions[0].listener.checks
}

// SubscribeAgain has a subscription that was refused be asked for again at the next check.
func (h TestHooks) SubscribeAgain() {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	h.d.partitions[0].listener.again = true
}

// Calm has it that checks have found nothing for long.
func (h TestHooks) Calm() {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	h.d.partitions[0].listener.lastHit = time.Now().Add(-calmAfter)
}
