package wait

import "time"

// State is what a Dispatcher knows of a topic. All of this file is for tests, the client's too.
type State struct {
	Callers   int
	Waiting   int // of the callers: no poll is under way for them, and they have been told that there is no job
	Unclaimed int // no poll is under way for them
	Leaving   int // would have left if none were
	Polls     int // under way
	Wakes     int
	Entered   bool
}

// State returns what is known of the topic.
func (t *Dispatcher) State(topic string) (s State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.partitions[0].queues[topic]
	if l == nil {
		return s
	}
	s.Callers, s.Entered = l.callers, true
	for _, partition := range t.partitions {
		l := partition.queues[topic]
		s.Entered = s.Entered && l != nil && l.entered
		if l != nil && l.busy {
			s.Polls++
		}
		if l != nil {
			s.Wakes += l.wakes
		}
	}
	for p := l.first; p != nil; p = p.next {
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
func (t *Dispatcher) Queues() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.partitions[0].queues)
}

// Polls reports whether this Redis user may not subscribe.
func (t *Dispatcher) Polls() bool { return t.partitions[0].listener.is(refused) }

// Checks is how often queues were looked at.
func (t *Dispatcher) Checks() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.partitions[0].listener.checks
}

// SubscribeAgain has a subscription that was refused be asked for again at the next check.
func (t *Dispatcher) SubscribeAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partitions[0].listener.again = true
}

// RetryWindow is for how long a caller who waits bears it that Redis is away.
const RetryWindow = retryWindow

// Calm has it that checks have found nothing for long.
func (t *Dispatcher) Calm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.partitions[0].listener.lastHit = time.Now().Add(-calmAfter)
}
