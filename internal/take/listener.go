package take

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// lookEvery is how often the queues that callers wait for are looked at: a message may be lost, and a
	// server of the original wakes nobody.
	lookEvery = time.Second
	// slowLook replaces lookEvery once looks have found nothing for calmAfter, if a server of ours runs.
	slowLook  = 10 * time.Second
	calmAfter = 30 * time.Second
	// pollEvery replaces lookEvery where we can't be woken. Of more lines than PollAtOnce some have
	// their turn each time, and all within lookEvery.
	pollEvery  = 50 * time.Millisecond
	PollAtOnce = 250
	// subscribeAgain is when we try to subscribe again after that was refused.
	subscribeAgain = time.Minute
	// lingerFor is for how long a line is kept that nobody waits in any more: a consumer comes back when it
	// is done with its job.
	lingerFor = 5 * time.Second
	// enterAgain is after how long we enter again, as entries do not last for ever.
	enterAgain = store.WaitingFor / 3
	// silence is after how long without a message the subscription is tried.
	silence = 15 * time.Second

	firstRetry = 20 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// listener is where a source is woken: one connection with one channel, however many topics are waited for. It
// runs while callers wait, and a little longer. Its fields are guarded by Taker.mu.
type listener struct {
	source  *source
	id      string // of the waiter; the channel is named after it
	running bool
	state   listenerState
	epoch   int           // counts subscriptions: what was entered during one is void in the next
	changed chan struct{} // holds one: there is something to see to at once
	look    bool          // at all lines, at once
	renew   bool          // our server takes no writes any more
	looks   int           // made
	warned  bool
	again   bool      // a subscription that was refused is to be tried again
	lastHit time.Time // when a look last found jobs
	left    time.Time // since when nobody waits
}

type listenerState int

const (
	unsubscribed listenerState = iota
	subscribed
	refused // this user may not subscribe: lines are polled
)

func newListener(s *source) *listener {
	var id [8]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	return &listener{source: s, id: hex.EncodeToString(id[:]), changed: make(chan struct{}, 1)}
}

// start has the listener run.
func (e *listener) start() {
	if !e.running {
		e.running = true
		e.source.taker.owner.Running.Add(1)
		go e.run()
	}
}

// enter is how a take enters us among the waiters of topics whose queues it finds empty or, if others wait
// for them, too, leaves empty.
func (e *listener) enter(t *take) store.Enter {
	waits, others := false, false
	for _, c := range t.callers {
		waits = waits || c.Waits
	}
	for _, l := range t.lines {
		others = others || l.callers > len(t.callers)
	}
	t.epoch = e.epoch
	if e.state != subscribed || !waits && !others {
		return store.Enter{}
	}
	return store.Enter{Waiter: e.id, Since: time.Since(t.callers[0].joined), Always: others}
}

func (e *listener) signal() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// Renew has the listeners open other connections, as theirs may lead to a server that is told nothing any more.
func (t *Taker) Renew() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.sources {
		s.listener.renew = true
		s.listener.signal()
	}
}

// run listens for as long as anybody waits.
func (e *listener) run() {
	owner := e.source.taker.owner
	defer owner.Running.Done()
	retry := firstRetry
	for e.isWanted() {
		began := time.Now()
		err := e.listen()
		entered := e.close()
		if err == nil || e.closing().Err() != nil {
			e.takeOut(entered)
			continue
		}
		e.report(err)
		if time.Since(began) > lastRetry { // it had worked: try again at once
			retry = firstRetry
			continue
		}
		select {
		case <-time.After(retry):
		case <-e.closing().Done():
		}
		retry = min(2*retry, lastRetry)
	}
}

// isWanted reports whether anybody waits, or did lately. If not, the listener ends, and nothing is kept of topics
// without callers.
func (e *listener) isWanted() bool {
	t := e.source.taker
	t.mu.Lock()
	defer t.mu.Unlock()
	e.running = !t.closed && e.isWaitedFor()
	if !e.running {
		e.left = time.Time{}
		e.source.forget(0)
	}
	return e.running
}

// isWaitedFor reports whether anybody waits, or did within lingerFor.
func (e *listener) isWaitedFor() bool {
	for _, l := range e.source.lines {
		for p := l.first; p != nil; p = p.next {
			if p.caller.Waits {
				e.left = time.Time{}
				return true
			}
		}
	}
	if e.left.IsZero() {
		e.left = time.Now()
	}
	return time.Since(e.left) < lingerFor
}

// forget drops the lines that have had no callers for so long. If we are woken for one of these, we
// pass the wake-up on.
func (s *source) forget(after time.Duration) {
	for topic, l := range s.lines {
		if l.callers == 0 && !l.busy && !l.queued && time.Since(l.left) >= after {
			delete(s.lines, topic)
		}
	}
}

// close makes all entries void, and returns their topics.
func (e *listener) close() (entered []string) {
	e.source.taker.mu.Lock()
	defer e.source.taker.mu.Unlock()
	e.state = unsubscribed
	e.epoch++
	for _, l := range e.source.lines {
		if l.entered {
			entered = append(entered, l.topic)
		}
		l.entered = false
	}
	return entered
}

// takeOut takes us out from among the waiters of the topics: who wakes one of these would have to find out that
// nobody hears it. It is worth no long wait.
func (e *listener) takeOut(topics []string) {
	ctx, cancel := context.WithTimeout(e.source.taker.owner.Abandoned, lastRetry)
	defer cancel()
	e.source.store.TakeOut(ctx, e.id, topics)
}

// report tells those who wait of an error.
func (e *listener) report(err error) {
	e.source.taker.mu.Lock()
	defer e.source.taker.mu.Unlock()
	for _, c := range e.source.callers() {
		if c.waits() {
			c.failed(err)
		}
	}
}

// listen listens until an error, until nobody waits, or until the connection is to be replaced.
func (e *listener) listen() error {
	channel := e.source.store.Keys().Wake(e.id)
	sub, err := e.source.store.Subscribe(e.closing(), silence, channel)
	if err != nil {
		return err
	}
	broken, heard := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(heard)
		broken <- e.receive(sub)
	}()
	defer func() { // nothing is heard any more once entries are void
		sub.Close()
		<-heard
	}()
	looks := newLooks(e)
	timer := time.NewTimer(time.Until(looks.next))
	defer timer.Stop()
	for {
		var lines []*line
		select {
		case err := <-broken:
			return err
		case <-e.closing().Done():
			return nil
		case <-e.changed:
			lines = e.news()
		case <-timer.C:
			lines = looks.due()
			if looks.subscribes() {
				if err := sub.Add(channel); err != nil {
					return err
				}
			}
		}
		if e.ends() {
			return nil
		}
		if err := e.lookAt(lines); err != nil {
			return err
		}
		looks.plan()
		timer.Reset(time.Until(looks.next))
	}
}

func (e *listener) closing() context.Context { return e.source.taker.closing }

// ends reports whether the connection is to be closed: nobody waits, or it is to be replaced.
func (e *listener) ends() bool {
	e.source.taker.mu.Lock()
	defer e.source.taker.mu.Unlock()
	return e.renew || !e.isWaitedFor()
}

// news are the lines that are to be looked at now.
func (e *listener) news() []*line {
	e.source.taker.mu.Lock()
	defer e.source.taker.mu.Unlock()
	if !e.look {
		return nil
	}
	e.look = false
	return e.waited()
}

// waited are the lines that have callers.
func (e *listener) waited() []*line {
	var lines []*line
	for _, l := range e.source.lines {
		if l.callers > 0 {
			lines = append(lines, l)
		}
	}
	return lines
}

// receive enters what is heard, until the connection ends.
func (e *listener) receive(sub *store.Subscription) error {
	for {
		event, err := sub.Receive()
		switch {
		case err != nil:
			return err
		case event.Subscribed:
			e.enterState(subscribed)
		case event.Refused != nil:
			e.refuse(event.Refused)
		default:
			e.wake(store.ReadWake(event.Data))
		}
	}
}

// enterState has all lines looked at anew, as jobs may have come before we could be woken.
func (e *listener) enterState(state listenerState) {
	e.source.taker.mu.Lock()
	defer e.source.taker.mu.Unlock()
	e.state, e.look = state, true
	e.signal()
}

// refuse has the lines polled, and says so once.
func (e *listener) refuse(err error) {
	e.enterState(refused)
	if e.warned { // only receive uses it
		return
	}
	e.warned = true
	e.source.taker.hooks.Logger.Warn(fmt.Sprintf("delayer: BPop can't be woken and asks for jobs every %v instead: this Redis user may not subscribe; ACL: &%s* +subscribe", pollEvery, e.source.store.Keys().Wake("")), "error", err)
}

// wake enters that the topic has jobs, of which we alone were told.
func (e *listener) wake(topic string, jobs int) {
	s := e.source
	s.taker.mu.Lock()
	defer s.taker.mu.Unlock()
	if l := s.lines[topic]; l != nil {
		l.wake(jobs, true)
	} else {
		s.passOn(topic)
	}
	s.trips.Wake()
}
