package wait

import "time"

// State is what a partition knows about a topic, for tests.
type State struct {
	Callers    int
	Waiting    int // callers without a poll in flight that know that there is no job
	Registered bool
	Checks     int  // that its Listener has made
	Refused    bool // the Listener polls because this Redis user may not subscribe
}

// State returns what is known about the topic, for tests.
func (p *Partition) State(topic string) (s State) {
	p.shared.mu.Lock()
	defer p.shared.mu.Unlock()
	s.Checks, s.Refused = p.listener.checks, p.listener.state == refused
	t := p.shared.topics[topic]
	if t == nil {
		return s
	}
	of := &t.in[p.number]
	s.Registered = of.registered
	for _, q := range of.queues {
		s.Callers += len(q.callers)
	}
	for _, w := range t.waiters {
		if s.Callers++; !w.isClaimed {
			s.Waiting++
		}
	}
	return s
}

// SubscribeAgain retries a refused subscription at the next check, for tests.
func (p *Partition) SubscribeAgain() {
	p.shared.mu.Lock()
	defer p.shared.mu.Unlock()
	p.listener.again = true
}

// Calm pretends that checks have long found nothing, for tests.
func (p *Partition) Calm() {
	p.shared.mu.Lock()
	defer p.shared.mu.Unlock()
	p.listener.lastHit = time.Now().Add(-calmAfter)
}
