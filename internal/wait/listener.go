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
	// checkEvery is how often queues with callers are checked: a message may be lost, and a
	// server of the original sends none.
	checkEvery = time.Second
	// slowCheck replaces checkEvery after checks have found nothing for calmAfter, if a server of ours runs.
	slowCheck = 10 * time.Second
	calmAfter = 30 * time.Second
	// checkAtOnce is how many queues of several partitions are checked together each checkEvery. If there are more, they take turns,
	// so that each is checked within slowCheck.
	checkAtOnce = 1000
	// pollEvery replaces checkEvery if we cannot be woken. More queues than pollAtOnce take turns,
	// so that each is checked within checkEvery.
	pollEvery  = 50 * time.Millisecond
	pollAtOnce = 250
	// subscribeAgain is the wait before a refused subscription is tried again.
	subscribeAgain = time.Minute
	// servedEvery is how often a listener asks whether a server still runs, unservedEvery how often while none does.
	// servedWithin bounds the question; without an answer it is asked again only after servedEvery.
	servedEvery   = time.Minute
	unservedEvery = 2 * time.Second
	servedWithin  = time.Second
	// lingerFor is how long a queue without callers is kept: a consumer comes back when it
	// is done with its job.
	lingerFor = 5 * time.Second
	// registerAgain is how often we register again, because registrations expire.
	registerAgain = store.WaitingFor / 3
	// silence is how long the subscription may be silent before it is checked.
	silence = 15 * time.Second

	firstRetry = 20 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// listener receives a node's wake-ups: one connection with a channel for each partition, for any number of topics. It
// runs while callers wait, and a little longer. Dispatcher.mu guards its fields, except told, which belongs to run.
type listener struct {
	*Dispatcher
	node     *node
	id       string // the waiter's ID, which names the channels
	running  bool
	state    listenerState
	channels map[string]*partition
	unheard  int           // channels that Redis has not confirmed yet
	epoch    int           // counts subscriptions: registrations of earlier ones are void
	changed  chan struct{} // holds one: something needs attention now
	recheck  bool          // check all queues now
	renew    bool          // our server no longer accepts writes
	checks   int           // made
	warned   bool
	again    bool      // try a refused subscription again
	lastHit  time.Time // the last check that found jobs
	left     time.Time // when the last caller stopped waiting
	told     time.Time // when we last registered our program; zero if Redis may not know it
}

type listenerState int

const (
	unsubscribed listenerState = iota
	subscribed
	refused // this user may not subscribe, so queues are polled
)

func newListener(n *node) *listener {
	var id [8]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	e := &listener{Dispatcher: n.dispatcher, node: n, id: hex.EncodeToString(id[:]), changed: make(chan struct{}, 1)}
	e.newEpoch()
	return e
}

func (e *listener) newEpoch() {
	e.epochs++
	e.epoch = e.epochs
}

func (e *listener) start() {
	if !e.running {
		e.running = true
		e.owner.Running.Add(1)
		go e.run()
	}
}

func (e *listener) signal() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// Renew makes the listeners reconnect, because their connections may lead to a server that gets no messages any more.
func (t *Dispatcher) Renew() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.nodes {
		n.listener.renew = true
		n.listener.signal()
	}
}

// run listens as long as callers wait.
func (e *listener) run() {
	defer e.owner.Running.Done()
	var pause redisconn.Backoff
	for e.isWanted() {
		began := time.Now()
		err := e.listen()
		topics := e.close()
		if err == nil || e.closing.Err() != nil {
			e.takeOut(topics)
			continue
		}
		e.told = time.Time{}
		e.report(err)
		if time.Since(began) > lastRetry { // it worked for a while: try again at once
			pause = 0
			continue
		}
		pause.Wait(e.closing, firstRetry, lastRetry)
	}
}

// isWanted reports whether callers wait, or did recently. If not, the listener ends, and topics without callers
// are dropped.
func (e *listener) isWanted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.regroup()
	e.running = !e.closed && e.isWaitedFor()
	if !e.running {
		e.left = time.Time{}
		e.node.forget(0)
	}
	return e.running
}

// isWaitedFor reports whether callers wait, or did within lingerFor. A waiting caller has a position in every partition.
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

// close makes all registrations void and returns their topics.
func (e *listener) close() (were map[*partition][]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
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

// takeOut removes us from the waiters of the topics; otherwise whoever wakes us would first have to find out that
// we do not hear it. Best effort: gives up after lastRetry.
func (e *listener) takeOut(topics map[*partition][]string) {
	ctx, cancel := context.WithTimeout(context.Background(), lastRetry)
	defer cancel()
	ends := e.closing.Err() != nil && !e.told.IsZero()
	for _, s := range e.partitions() {
		s.store.Unregister(ctx, e.id, topics[s], ends)
	}
}

func (e *listener) partitions() []*partition {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.node.partitions)
}

// tell registers our program, once for each subscription, and again before that expires.
func (e *listener) tell() {
	if !e.is(subscribed) || time.Since(e.told) < registerAgain {
		return
	}
	e.told = time.Now()
	var in []*store.Store
	for _, s := range e.partitions() {
		in = append(in, s.store)
	}
	store.Register(e.closing, in, e.id, store.ThisProgram())
}

// report gives an error to the waiting callers.
func (e *listener) report(err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.node.isDissolved { // they no longer wait there
		return
	}
	e.node.setAway(true)
	for _, c := range e.node.partitions[0].callers() {
		if c.waits() {
			c.retry(err)
		}
	}
}

// tune returns the channels to subscribe to, and counts them as unconfirmed.
func (e *listener) tune() (channels []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.channels = make(map[string]*partition, len(e.node.partitions))
	for _, s := range e.node.partitions {
		channel := s.store.Keys().Wake(e.id)
		channels, e.channels[channel] = append(channels, channel), s
	}
	e.unheard = len(channels)
	return channels
}

func (e *listener) partitionOf(channel string) *partition {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.channels[channel]
}

// listen listens until an error, until no caller waits, or until the connection must be replaced.
func (e *listener) listen() error {
	channels := e.tune()
	sub, err := e.node.partitions[0].store.Subscribe(e.closing, silence, channels...)
	if err != nil {
		return err
	}
	broken, heard := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(heard)
		broken <- e.receive(sub)
	}()
	defer func() { // no message may arrive after registrations are void
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
		case <-e.closing.Done():
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

// ends reports whether to close the connection: no caller waits, or it must be replaced.
func (e *listener) ends() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.renew || !e.isWaitedFor()
}

func (e *listener) news() []*waitQueue {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.recheck {
		return nil
	}
	e.recheck = false
	return e.node.waited()
}

// receive handles messages until the connection ends.
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

// confirmed records that Redis has confirmed one more channel.
func (e *listener) confirmed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.unheard--; e.unheard == 0 {
		e.changeState(subscribed)
	}
}

// changeState checks all queues again, because jobs may have come before we could be woken.
func (e *listener) changeState(state listenerState) {
	e.state, e.recheck = state, true
	e.signal()
}

// refuse makes the listener poll, and logs that once.
func (e *listener) refuse(err error) {
	e.mu.Lock()
	e.changeState(refused)
	e.mu.Unlock()
	if e.warned { // used by receive only
		return
	}
	e.warned = true
	s, command := e.node.partitions[0].store, "+subscribe"
	if s.Sharded() {
		command = "+ssubscribe"
	}
	e.hooks.Logger.Warn(fmt.Sprintf("delayer: BPop can't be woken and asks for jobs every %v instead: this Redis user may not subscribe; ACL: &%s* %s", pollEvery, s.Keys().Wake(""), command), "error", err)
}
