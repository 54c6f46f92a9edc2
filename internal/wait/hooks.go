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
	Registered bool
	Checks     int  // that its listener has made
	Refused    bool // the listener polls because this Redis user may not subscribe
}

// State returns what is known about the topic.
func (h TestHooks) State(topic string) (s State) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	first := h.d.partitions[0]
	s.Checks, s.Refused = first.listener.checks, first.listener.state == refused
	s.Registered = true
	for _, partition := range h.d.partitions {
		q := partition.queues[topic]
		if s.Registered = s.Registered && q != nil && q.state == registered; q == nil {
			continue
		}
		for p := q.first; partition == first && p != nil; p = p.next {
			s.Callers++
			if p.caller.waits() {
				s.Waiting++
			}
		}
	}
	return s
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
