package take

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
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

// listener is where a node wakes us: one connection with a channel for each of its sources, however many topics are waited for. It
// runs while callers wait, and a little longer. Its fields are guarded by Taker.mu, but for told, which is run's.
type listener struct {
	node     *node
	id       string // of the waiter; the channels are named after it
	running  bool
	state    listenerState
	channels map[string]*source
	unheard  int           // how many of these Redis has not confirmed yet
	epoch    int           // counts subscriptions: what was entered during one is void in the next
	changed  chan struct{} // holds one: there is something to see to at once
	look     bool          // at all lines, at once
	renew    bool          // our server takes no writes any more
	looks    int           // made
	warned   bool
	again    bool      // a subscription that was refused is to be tried again
	lastHit  time.Time // when a look last found jobs
	left     time.Time // since when nobody waits
	told     time.Time // when we last said which program we are; zero if Redis may not know it
}

type listenerState int

const (
	unsubscribed listenerState = iota
	subscribed
	refused // this user may not subscribe: lines are polled
)

func newListener(n *node) *listener {
	var id [8]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	e := &listener{node: n, id: hex.EncodeToString(id[:]), changed: make(chan struct{}, 1)}
	e.newEpoch()
	return e
}

func (e *listener) newEpoch() {
	e.taker().epochs++
	e.epoch = e.taker().epochs
}

// start has the listener run.
func (e *listener) start() {
	if !e.running {
		e.running = true
		e.taker().owner.Running.Add(1)
		go e.run()
	}
}

// enter is how a take enters us among the waiters of topics whose queues it finds empty or, if others wait
// for them, too, leaves empty.
func (e *listener) enter(t *take) store.Enter {
	waits, others := false, false
	for _, c := range t.callers {
		waits = waits || c.Waits && !c.comesBack
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
	for _, n := range t.nodes {
		n.listener.renew = true
		n.listener.signal()
	}
}

// run listens for as long as anybody waits.
func (e *listener) run() {
	owner := e.taker().owner
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
		e.told = time.Time{}
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
	t := e.taker()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.regroup()
	e.running = !t.closed && e.isWaitedFor()
	if !e.running {
		e.left = time.Time{}
		e.node.forget(0)
	}
	return e.running
}

// isWaitedFor reports whether anybody waits, or did within lingerFor. Who waits has a place in a line of each source.
func (e *listener) isWaitedFor() bool {
	if e.node.dissolved {
		return false
	}
	for _, l := range e.node.sources[0].lines {
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

// close makes all entries void, and returns their topics.
func (e *listener) close() (entered map[*source][]string) {
	e.taker().mu.Lock()
	defer e.taker().mu.Unlock()
	e.state = unsubscribed
	e.newEpoch()
	entered = map[*source][]string{}
	for _, s := range e.node.sources {
		for _, l := range s.lines {
			if l.entered || l.held != nil {
				entered[s] = append(entered[s], l.topic)
			}
			l.entered = false
			l.unhold()
		}
	}
	return entered
}

// takeOut takes us out from among the waiters of the topics: who wakes one of these would have to find out that
// nobody hears it. Best effort: gives up after lastRetry.
func (e *listener) takeOut(entered map[*source][]string) {
	ctx, cancel := context.WithTimeout(e.taker().owner.Abandoned, lastRetry)
	defer cancel()
	ends := e.closing().Err() != nil && !e.told.IsZero()
	for _, s := range e.sources() {
		s.store.TakeOut(ctx, e.id, entered[s], ends)
	}
}

// sources are those of the node.
func (e *listener) sources() []*source {
	e.taker().mu.Lock()
	defer e.taker().mu.Unlock()
	return slices.Clone(e.node.sources)
}

// tell says which program we are, once for each subscription, and again before that is forgotten.
func (e *listener) tell() {
	if !e.is(subscribed) || time.Since(e.told) < enterAgain {
		return
	}
	e.told = time.Now()
	var in []*store.Store
	for _, s := range e.sources() {
		in = append(in, s.store)
	}
	store.Register(e.closing(), in, e.id, store.ThisProgram())
}

// report tells those who wait of an error.
func (e *listener) report(err error) {
	e.taker().mu.Lock()
	defer e.taker().mu.Unlock()
	if e.node.dissolved { // the error is of where they don't wait any more
		return
	}
	e.node.setAway(true)
	for _, c := range e.node.sources[0].callers() {
		if c.waits() {
			c.failed(err)
		}
	}
}

// tune returns the channels that we are to hear, and counts those that we hear from now on.
func (e *listener) tune() (channels []string) {
	e.taker().mu.Lock()
	defer e.taker().mu.Unlock()
	e.channels = make(map[string]*source, len(e.node.sources))
	for _, s := range e.node.sources {
		channel := s.store.Keys().Wake(e.id)
		channels, e.channels[channel] = append(channels, channel), s
	}
	e.unheard = len(channels)
	return channels
}

// sourceOf is whose channel that is; nil if it is nobody's.
func (e *listener) sourceOf(channel string) *source {
	e.taker().mu.Lock()
	defer e.taker().mu.Unlock()
	return e.channels[channel]
}

// listen listens until an error, until nobody waits, or until the connection is to be replaced.
func (e *listener) listen() error {
	channels := e.tune()
	sub, err := e.node.sources[0].store.Subscribe(e.closing(), silence, channels...)
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
				if err := sub.Add(e.tune()...); err != nil {
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
		e.tell()
		looks.plan()
		timer.Reset(time.Until(looks.next))
	}
}

func (e *listener) taker() *Taker { return e.node.taker }

func (e *listener) closing() context.Context { return e.taker().closing }

// ends reports whether the connection is to be closed: nobody waits, or it is to be replaced.
func (e *listener) ends() bool {
	e.taker().mu.Lock()
	defer e.taker().mu.Unlock()
	return e.renew || !e.isWaitedFor()
}

// news are the lines that are to be looked at now.
func (e *listener) news() []*line {
	e.taker().mu.Lock()
	defer e.taker().mu.Unlock()
	if !e.look {
		return nil
	}
	e.look = false
	return e.node.waited()
}

// receive enters what is heard, until the connection ends.
func (e *listener) receive(sub *store.Subscription) error {
	for {
		event, err := sub.Receive()
		switch {
		case err != nil:
			return err
		case event.Subscribed:
			e.hears()
		case event.Refused != nil:
			e.refuse(event.Refused)
		default:
			if s := e.sourceOf(event.Channel); s != nil {
				s.wake(store.ReadWake(event.Data))
			}
		}
	}
}

// hears enters that we hear one more channel.
func (e *listener) hears() {
	e.taker().mu.Lock()
	defer e.taker().mu.Unlock()
	if e.unheard--; e.unheard == 0 {
		e.enterState(subscribed)
	}
}

// enterState has all lines looked at anew, as jobs may have come before we could be woken.
func (e *listener) enterState(state listenerState) {
	e.state, e.look = state, true
	e.signal()
}

// refuse has the lines polled, and says so once.
func (e *listener) refuse(err error) {
	e.taker().mu.Lock()
	e.enterState(refused)
	e.taker().mu.Unlock()
	if e.warned { // only receive uses it
		return
	}
	e.warned = true
	s, command := e.node.sources[0].store, "+subscribe"
	if s.Sharded() {
		command = "+ssubscribe"
	}
	e.taker().hooks.Logger.Warn(fmt.Sprintf("delayer: BPop can't be woken and asks for jobs every %v instead: this Redis user may not subscribe; ACL: &%s* %s", pollEvery, s.Keys().Wake(""), command), "error", err)
}
