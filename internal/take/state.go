package take

import "time"

// State is what a Taker knows of a topic. All of this file is for tests, the client's too.
type State struct {
	Callers   int
	Waiting   int // of the callers: no take is under way for them, and they have been told that there is no job
	Unclaimed int // no take is under way for them
	Leaving   int // would have left if none were
	Takes     int // under way
	Wakes     int
	Entered   bool
}

// State returns what is known of the topic.
func (t *Taker) State(topic string) (s State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.sources[0].lines[topic]
	if l == nil {
		return s
	}
	s.Callers, s.Entered = l.callers, true
	for _, source := range t.sources {
		l := source.lines[topic]
		s.Entered = s.Entered && l != nil && l.entered
		if l != nil && l.busy {
			s.Takes++
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

// Lines is how many topics something is known of.
func (t *Taker) Lines() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.sources[0].lines)
}

// Polls reports whether this Redis user may not subscribe.
func (t *Taker) Polls() bool { return t.sources[0].listener.is(refused) }

// Looks is how often lines were looked at.
func (t *Taker) Looks() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sources[0].listener.looks
}

// SubscribeAgain has a subscription that was refused be asked for again at the next look.
func (t *Taker) SubscribeAgain() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sources[0].listener.again = true
}

// RideOut is for how long a caller who waits bears it that Redis is away.
const RideOut = rideOut

// Calm has it that looks have found nothing for long.
func (t *Taker) Calm() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sources[0].listener.lastHit = time.Now().Add(-calmAfter)
}
