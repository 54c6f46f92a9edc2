package wait

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// checkEvery is how often the queues that callers wait in are checked: a message may be lost, and a
	// server of the original wakes nobody.
	checkEvery = time.Second
	// slowCheck replaces checkEvery once checks have found nothing for calmAfter, if a server of ours runs.
	slowCheck = 10 * time.Second
	calmAfter = 30 * time.Second
	// checkAtOnce is how many queues of several partitions are checked at a time, each checkEvery. Of more a part has its turn each time,
	// and all within slowCheck.
	checkAtOnce = 1000
	// pollEvery replaces checkEvery where we can't be woken. Of more queues than PollAtOnce some have
	// their turn each time, and all within checkEvery.
	pollEvery  = 50 * time.Millisecond
	PollAtOnce = 250
	// subscribeAgain is when we try to subscribe again after that was refused.
	subscribeAgain = time.Minute
	// lingerFor is for how long a queue is kept that nobody waits in any more: a consumer comes back when it
	// is done with its job.
	lingerFor = 5 * time.Second
	// registerAgain is after how long we register again, as Redis forgets registrations.
	registerAgain = store.WaitingFor / 3
	// silence is after how long without a message the subscription is tried.
	silence = 15 * time.Second

	firstRetry = 20 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// listener is where a node wakes us: one connection with a channel for each of its partitions, however many topics are waited for. It
// runs while callers wait, and a little longer. Its fields are guarded by Dispatcher.mu, but for told, which is run's.
type listener struct {
	node     *node
	id       string // of the waiter; the channels are named after it
	running  bool
	state    listenerState
	channels map[string]*partition
	unheard  int           // how many of these Redis has not confirmed yet
	epoch    int           // counts subscriptions: a registration of one is void in the next
	changed  chan struct{} // holds one: there is something to see to at once
	recheck  bool          // of all queues, at once
	renew    bool          // our server takes no writes any more
	checks   int           // made
	warned   bool
	again    bool      // a subscription that was refused is to be tried again
	lastHit  time.Time // when a check last found jobs
	left     time.Time // since when nobody waits
	told     time.Time // when we last said which program we are; zero if Redis may not know it
}

type listenerState int

const (
	unsubscribed listenerState = iota
	subscribed
	refused // this user may not subscribe: queues are polled
)

func newListener(n *node) *listener {
	var id [8]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	e := &listener{node: n, id: hex.EncodeToString(id[:]), changed: make(chan struct{}, 1)}
	e.newEpoch()
	return e
}

func (e *listener) newEpoch() {
	e.dispatcher().epochs++
	e.epoch = e.dispatcher().epochs
}

// start has the listener run.
func (e *listener) start() {
	if !e.running {
		e.running = true
		e.dispatcher().owner.Running.Add(1)
		go e.run()
	}
}

func (e *listener) signal() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// Renew has the listeners open other connections, as theirs may lead to a server that is told nothing any more.
func (t *Dispatcher) Renew() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.nodes {
		n.listener.renew = true
		n.listener.signal()
	}
}

// run listens for as long as anybody waits.
func (e *listener) run() {
	owner := e.dispatcher().owner
	defer owner.Running.Done()
	var pause redisconn.Backoff
	for e.isWanted() {
		began := time.Now()
		err := e.listen()
		topics := e.close()
		if err == nil || e.closing().Err() != nil {
			e.takeOut(topics)
			continue
		}
		e.told = time.Time{}
		e.report(err)
		if time.Since(began) > lastRetry { // it had worked: try again at once
			pause = 0
			continue
		}
		pause.Wait(e.closing(), firstRetry, lastRetry)
	}
}

// isWanted reports whether anybody waits, or did lately. If not, the listener ends, and nothing is kept of topics
// without callers.
func (e *listener) isWanted() bool {
	t := e.dispatcher()
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

// isWaitedFor reports whether anybody waits, or did within lingerFor. Who waits has a position in a queue of each partition.
func (e *listener) isWaitedFor() bool {
	if e.node.isDissolved {
		return false
	}
	for _, q := range e.node.partitions[0].queues {
		for p := q.first; p != nil; p = p.next {
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

// close makes all registrations void, and returns their topics.
func (e *listener) close() (were map[*partition][]string) {
	e.dispatcher().mu.Lock()
	defer e.dispatcher().mu.Unlock()
	e.state = unsubscribed
	e.newEpoch()
	were = map[*partition][]string{}
	for _, s := range e.node.partitions {
		for _, q := range s.queues {
			if q.state == registered || q.next == registered || q.throttle != nil {
				were[s] = append(were[s], q.topic)
			}
		}
	}
	e.node.unheard()
	return were
}

// takeOut takes us out from among the waiters of the topics: who wakes one of these would have to find out that
// nobody hears it. Best effort: gives up after lastRetry.
func (e *listener) takeOut(topics map[*partition][]string) {
	ctx, cancel := context.WithTimeout(e.dispatcher().owner.Abandoned, lastRetry)
	defer cancel()
	ends := e.closing().Err() != nil && !e.told.IsZero()
	for _, s := range e.partitions() {
		s.store.TakeOut(ctx, e.id, topics[s], ends)
	}
}

// partitions are those of the node.
func (e *listener) partitions() []*partition {
	e.dispatcher().mu.Lock()
	defer e.dispatcher().mu.Unlock()
	return slices.Clone(e.node.partitions)
}

// tell says which program we are, once for each subscription, and again before that is forgotten.
func (e *listener) tell() {
	if !e.is(subscribed) || time.Since(e.told) < registerAgain {
		return
	}
	e.told = time.Now()
	var in []*store.Store
	for _, s := range e.partitions() {
		in = append(in, s.store)
	}
	store.Register(e.closing(), in, e.id, store.ThisProgram())
}

// report tells those who wait of an error.
func (e *listener) report(err error) {
	e.dispatcher().mu.Lock()
	defer e.dispatcher().mu.Unlock()
	if e.node.isDissolved { // the error is of where they don't wait any more
		return
	}
	e.node.setAway(true)
	for _, c := range e.node.partitions[0].callers() {
		if c.waits() {
			c.retry(err)
		}
	}
}

// tune returns the channels that we are to hear, and counts those that we hear from now on.
func (e *listener) tune() (channels []string) {
	e.dispatcher().mu.Lock()
	defer e.dispatcher().mu.Unlock()
	e.channels = make(map[string]*partition, len(e.node.partitions))
	for _, s := range e.node.partitions {
		channel := s.store.Keys().Wake(e.id)
		channels, e.channels[channel] = append(channels, channel), s
	}
	e.unheard = len(channels)
	return channels
}

// partitionOf is whose channel that is; nil if it is nobody's.
func (e *listener) partitionOf(channel string) *partition {
	e.dispatcher().mu.Lock()
	defer e.dispatcher().mu.Unlock()
	return e.channels[channel]
}

// listen listens until an error, until nobody waits, or until the connection is to be replaced.
func (e *listener) listen() error {
	channels := e.tune()
	sub, err := e.node.partitions[0].store.Subscribe(e.closing(), silence, channels...)
	if err != nil {
		return err
	}
	broken, heard := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(heard)
		broken <- e.receive(sub)
	}()
	defer func() { // nothing is heard any more once registrations are void
		sub.Close()
		<-heard
	}()
	checks := newChecks(e)
	timer := time.NewTimer(time.Until(checks.next))
	defer timer.Stop()
	for {
		var queues []*waitQueue
		select {
		case err := <-broken:
			return err
		case <-e.closing().Done():
			return nil
		case <-e.changed:
			queues = e.news()
		case <-timer.C:
			queues = checks.due()
			if checks.subscribes() {
				if err := sub.Add(e.tune()...); err != nil {
					return err
				}
			}
		}
		if e.ends() {
			return nil
		}
		if err := e.check(queues); err != nil {
			return err
		}
		e.tell()
		checks.plan()
		timer.Reset(time.Until(checks.next))
	}
}

func (e *listener) dispatcher() *Dispatcher { return e.node.dispatcher }

func (e *listener) closing() context.Context { return e.dispatcher().closing }

// ends reports whether the connection is to be closed: nobody waits, or it is to be replaced.
func (e *listener) ends() bool {
	e.dispatcher().mu.Lock()
	defer e.dispatcher().mu.Unlock()
	return e.renew || !e.isWaitedFor()
}

// news are the queues that are to be looked at now.
func (e *listener) news() []*waitQueue {
	e.dispatcher().mu.Lock()
	defer e.dispatcher().mu.Unlock()
	if !e.recheck {
		return nil
	}
	e.recheck = false
	return e.node.waited()
}

// receive notes what is heard, until the connection ends.
func (e *listener) receive(sub *store.Subscription) error {
	for {
		event, err := sub.Receive()
		switch {
		case err != nil:
			return err
		case event.Subscribed:
			e.confirmed()
		case event.Refused != nil:
			e.refuse(event.Refused)
		default:
			if s := e.partitionOf(event.Channel); s != nil {
				s.wake(store.ReadWake(event.Data))
			}
		}
	}
}

// confirmed notes that Redis has confirmed one more channel.
func (e *listener) confirmed() {
	e.dispatcher().mu.Lock()
	defer e.dispatcher().mu.Unlock()
	if e.unheard--; e.unheard == 0 {
		e.changeState(subscribed)
	}
}

// changeState has all queues checked anew, as jobs may have come before we could be woken.
func (e *listener) changeState(state listenerState) {
	e.state, e.recheck = state, true
	e.signal()
}

// refuse has the queues polled, and says so once.
func (e *listener) refuse(err error) {
	e.dispatcher().mu.Lock()
	e.changeState(refused)
	e.dispatcher().mu.Unlock()
	if e.warned { // only receive uses it
		return
	}
	e.warned = true
	s, command := e.node.partitions[0].store, "+subscribe"
	if s.Sharded() {
		command = "+ssubscribe"
	}
	e.dispatcher().hooks.Logger.Warn(fmt.Sprintf("delayer: BPop can't be woken and asks for jobs every %v instead: this Redis user may not subscribe; ACL: &%s* %s", pollEvery, s.Keys().Wake(""), command), "error", err)
}
