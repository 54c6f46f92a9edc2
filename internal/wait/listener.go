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
	// lingerFor is how long a topic without callers is kept: a consumer comes back when it is done with its job.
	lingerFor = 5 * time.Second
	// registerAgain is how often we register again, because registrations expire.
	registerAgain = store.WaitingFor / 3
	// silence is how long the subscription may be silent before it is checked.
	silence = 15 * time.Second

	firstRetry = 20 * time.Millisecond
	lastRetry  = 500 * time.Millisecond
)

// Listener receives the wake-ups of some partitions that share a connection: one channel for each, for any number of topics. It
// runs while callers wait, and a little longer. Shared.mu guards its fields, except told.
type Listener struct {
	shared     *Shared
	partitions []*Partition
	id         string // the waiter's ID, which names the channels
	running    bool
	state      listenerState
	channels   map[string]*Partition
	unheard    int           // channels that Redis has not confirmed yet
	epoch      int           // counts subscriptions: registrations of earlier ones are void
	changed    chan struct{} // holds one: something needs attention now
	look       bool          // check the queues that we are not registered for now
	renew      bool          // our server no longer accepts writes
	checks     int           // made
	again      bool          // try a refused subscription again
	lastHit    time.Time     // the last check that found jobs
	left       time.Time     // when the last caller stopped waiting
	told       time.Time     // when we last registered our program; zero if Redis may not know it
}

type listenerState int

const (
	unsubscribed listenerState = iota
	subscribed
	refused // this user may not subscribe, so topics are polled
)

// NewListener makes the Listener of these partitions.
func (s *Shared) NewListener(partitions ...*Partition) *Listener {
	var id [8]byte
	rand.Read(id[:]) // never fails (crypto/rand)
	e := &Listener{shared: s, partitions: partitions, id: hex.EncodeToString(id[:]), changed: make(chan struct{}, 1)}
	for _, p := range partitions {
		p.listener = e
	}
	return e
}

func (e *Listener) start() {
	if e.left = (time.Time{}); !e.running {
		e.running = true
		e.shared.owner.Running.Add(1)
		go e.run()
	}
}

// lookNow checks the queues that we are not registered for.
func (e *Listener) lookNow() {
	e.look = true
	e.signal()
}

func (e *Listener) signal() {
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// Renew makes the Listener reconnect, because its connection may lead to a server that gets no messages any more.
func (e *Listener) Renew() {
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	e.renew = true
	e.signal()
}

// run listens as long as callers wait.
func (e *Listener) run() {
	defer e.shared.owner.Running.Done()
	var pause redisconn.Backoff
	for e.isWanted() {
		began := time.Now()
		err := e.listen()
		topics := e.close()
		if err == nil || e.shared.closing.Err() != nil {
			e.takeOut(topics)
			continue
		}
		e.told = time.Time{}
		e.report(err)
		if time.Since(began) > lastRetry { // it worked for a while: try again at once
			pause = 0
			continue
		}
		pause.Wait(e.shared.closing, firstRetry, lastRetry)
	}
}

// isWanted reports whether callers wait, or did recently. If not, the Listener ends, and topics without callers are dropped.
func (e *Listener) isWanted() bool {
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	e.renew = false
	if e.running = e.shared.closing.Err() == nil && e.isWaitedFor(); !e.running {
		e.forget(0)
	}
	return e.running
}

// isWaitedFor reports whether callers wait, or did within lingerFor. A waiting caller is in a list of every partition.
func (e *Listener) isWaitedFor() bool {
	for _, t := range e.shared.topics {
		if len(t.waiters) > 0 {
			e.left = time.Time{}
			return true
		}
	}
	if e.left.IsZero() {
		e.left = time.Now()
	}
	return time.Since(e.left) < lingerFor
}

// forget drops topics that have had no callers for that long. If we are woken for one of these, we pass the wake-up on.
func (e *Listener) forget(after time.Duration) {
	for _, t := range e.shared.topics {
		if len(t.waiters) == 0 && time.Since(t.left) >= after {
			for _, p := range e.partitions {
				if q := &t.in[p.number]; !q.isBusy() {
					q.unheard()
				}
			}
			t.retire()
		}
	}
}

// loseAll makes all registrations void.
func (e *Listener) loseAll() {
	for _, q := range e.queues(nil) {
		q.unheard()
	}
}

// close makes all registrations void and returns their topics.
func (e *Listener) close() map[*Partition][]string {
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	e.state = unsubscribed
	e.epoch++
	were := map[*Partition][]string{}
	for _, q := range e.queues(nil) {
		if q.registered || q.throttle != nil {
			were[q.partition] = append(were[q.partition], q.topic.name)
		}
	}
	e.loseAll()
	return were
}

// takeOut removes us from the waiters of the topics; otherwise whoever wakes us would first have to find out that
// we do not hear it. Best effort: gives up after lastRetry.
func (e *Listener) takeOut(topics map[*Partition][]string) {
	ctx, cancel := context.WithTimeout(context.Background(), lastRetry)
	defer cancel()
	ends := e.shared.closing.Err() != nil && !e.told.IsZero()
	for _, p := range e.partitions {
		p.store.Unregister(ctx, e.id, topics[p], ends)
	}
}

// tell registers our program, once for each subscription, and again before that expires.
func (e *Listener) tell() {
	if !e.is(subscribed) || time.Since(e.told) < registerAgain {
		return
	}
	e.told = time.Now()
	store.Register(e.shared.closing, e.stores(), e.id, store.ThisProgram())
}

func (e *Listener) stores() (list []*store.Store) {
	for _, p := range e.partitions {
		list = append(list, p.store)
	}
	return list
}

// report gives an error to the waiting callers.
func (e *Listener) report(err error) {
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	for _, p := range e.partitions {
		p.setAway(true)
	}
	told := map[*Caller]bool{}
	for _, t := range e.shared.topics {
		for _, w := range slices.Clone(t.waiters) {
			if !w.isClaimed && !told[w.Caller] {
				told[w.Caller] = true
				w.retry(err)
			}
		}
	}
}

// tune returns the channels to subscribe to, and counts them as unconfirmed.
func (e *Listener) tune() (channels []string) {
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	e.channels = make(map[string]*Partition, len(e.partitions))
	for _, p := range e.partitions {
		channel := p.store.Keys().Wake(e.id)
		channels, e.channels[channel] = append(channels, channel), p
	}
	e.unheard = len(channels)
	return channels
}

// listen listens until an error, until no caller waits, or until the connection must be replaced.
func (e *Listener) listen() error {
	sub, err := e.partitions[0].store.Subscribe(e.shared.closing, silence, e.tune()...)
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
		var queues []*readyQueue
		select {
		case err := <-broken:
			return err
		case <-e.shared.closing.Done():
			return nil
		case <-e.changed:
			queues = e.news()
		case <-timer.C:
		}
		if !checks.next.After(time.Now()) { // also if there was news all the time
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
func (e *Listener) ends() bool {
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	return e.renew || !e.isWaitedFor()
}

// news returns the ready queues to check now.
func (e *Listener) news() (queues []*readyQueue) {
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	if e.look {
		queues = e.queues((*readyQueue).isLost)
	}
	e.look = false
	return queues
}

// queues returns the selected ready queues of the Listener's partitions; nil selects all.
func (e *Listener) queues(selected func(*readyQueue) bool) (queues []*readyQueue) {
	for _, t := range e.shared.topics {
		for _, p := range e.partitions {
			if q := &t.in[p.number]; selected == nil || selected(q) {
				queues = append(queues, q)
			}
		}
	}
	return queues
}

// receive handles messages until the connection ends.
func (e *Listener) receive(sub *store.Subscription) error {
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
			e.shared.mu.Lock()
			if p := e.channels[event.Channel]; p != nil {
				p.wake(store.ReadWake(event.Data))
			}
			e.shared.mu.Unlock()
		}
	}
}

// confirmed records that Redis has confirmed one more channel.
func (e *Listener) confirmed() {
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	if e.unheard--; e.unheard == 0 {
		e.changeState(subscribed)
	}
}

// changeState checks all queues, because jobs may have come before we could be woken.
func (e *Listener) changeState(state listenerState) {
	e.state = state
	e.lookNow()
}

// refuse makes the Listener poll, and logs that once.
func (e *Listener) refuse(err error) {
	e.shared.mu.Lock()
	e.changeState(refused)
	isSaid := e.shared.warnedPolls
	e.shared.warnedPolls = true
	e.shared.mu.Unlock()
	if isSaid {
		return
	}
	s, command := e.partitions[0].store, "+subscribe"
	if s.Sharded() {
		command = "+ssubscribe"
	}
	e.shared.hooks.Logger.Warn(fmt.Sprintf("delayer: BPop can't be woken and asks for jobs every %v instead: this Redis user may not subscribe; ACL: &%s* %s", pollEvery, s.Keys().Wake(""), command), "error", err)
}
