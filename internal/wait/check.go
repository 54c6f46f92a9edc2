package wait

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// checkEvery is how often topics with callers are checked: a message may be lost, and a
	// server of the original sends none.
	checkEvery = time.Second
	// slowCheck replaces checkEvery after checks have found nothing for calmAfter, if a server of ours runs.
	slowCheck = 10 * time.Second
	calmAfter = 30 * time.Second
	// pollEvery replaces checkEvery if we cannot be woken.
	pollEvery = 50 * time.Millisecond
	// mostChecked is how many topics of several partitions are checked in a second; with more, checks are rarer, up to slowCheck. mostPolled is how
	// many are if we cannot be woken; with more, checks are rarer, up to checkEvery.
	mostChecked = 1000
	mostPolled  = 5000
	// subscribeAgain is the wait before a refused subscription is tried again.
	subscribeAgain = time.Minute
	// servedEvery is how often a Listener asks whether a server still runs, unservedEvery how often while none does.
	// servedWithin bounds the question; without an answer it is asked again only after servedEvery.
	servedEvery   = time.Minute
	unservedEvery = 2 * time.Second
	servedWithin  = time.Second
)

// checks decides when topics are checked. It belongs to the goroutine of listen.
type checks struct {
	listener *Listener
	next     time.Time
	topics   int // checked last
	began    time.Time
	asked    time.Time // the last attempt to subscribe
	expected time.Time // when we last looked for jobs that no server makes ready
}

// newChecks starts at a random time within checkEvery, because many Clients may have subscribed at once.
func newChecks(e *Listener) *checks {
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	now := time.Now()
	e.lastHit = now
	return &checks{listener: e, began: now, asked: now, next: now.Add(rand.N(checkEvery))}
}

// due returns the ready queues to check now. A caller that always finds jobs is in no list, and relies on what is known of its other topics; so these are
// checked as long as they are kept.
func (k *checks) due() []*readyQueue {
	e := k.listener
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	e.forget(lingerFor)
	queues := e.queues(func(q *readyQueue) bool { return len(q.topic.waiters) > 0 || q.registered })
	k.topics = len(queues)
	return queues
}

func (k *checks) subscribes() bool {
	e := k.listener
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	again := e.state == refused && (e.again || time.Since(k.asked) >= subscribeAgain)
	if again {
		k.asked, e.again = time.Now(), false
	}
	return again
}

func (k *checks) plan() {
	e := k.listener
	isCalm := e.isCalm()
	served := k.isServed(isCalm)
	if !served && time.Since(k.began) > unservedEvery && time.Since(k.expected) > unservedEvery {
		k.expectMoved()
	}
	every := checkEvery
	switch {
	case e.is(refused):
		every = min(max(pollEvery, time.Duration(k.topics)*time.Second/mostPolled), checkEvery)
	case isCalm && served:
		every = slowCheck
	case len(e.partitions) > 1: // without servers of the original: whatever makes a job ready wakes us
		every = min(max(checkEvery, time.Duration(k.topics)*time.Second/mostChecked), slowCheck)
	}
	if now := time.Now(); !k.next.After(now) || k.next.Sub(now) > every {
		k.next = now.Add(every)
	}
}

// isServed reports whether a server runs. The Client's Listeners ask that together, now and then.
func (k *checks) isServed(isCalm bool) bool {
	s := k.listener.shared
	s.mu.Lock()
	every, now := unservedEvery, time.Now()
	if s.served {
		every = servedEvery
	}
	isDue := now.Sub(s.askedServed) > every && (isCalm || now.Sub(k.began) > unservedEvery)
	if isDue {
		s.askedServed = now
	}
	served := s.served
	s.mu.Unlock()
	if !isDue {
		return served
	}
	ctx, cancel := context.WithTimeout(s.closing, servedWithin)
	defer cancel()
	served = s.keeper.Served(ctx)
	s.mu.Lock()
	s.served = served
	if ctx.Err() != nil {
		s.askedServed = now.Add(servedEvery)
	}
	s.mu.Unlock()
	return served
}

// expectMoved warns if jobs have been due for a while and no server runs to make them ready. Most likely the server uses another Redis or prefix.
func (k *checks) expectMoved() {
	k.expected = time.Now()
	s, stores := k.listener.shared, k.listener.stores()
	s.mu.Lock()
	isSaid := time.Since(s.warnedServed) < servedEvery
	s.mu.Unlock()
	if isSaid {
		return
	}
	ctx, cancel := context.WithTimeout(s.closing, servedWithin)
	defer cancel()
	if late := store.Overdue(ctx, stores); late >= unservedEvery {
		s.mu.Lock()
		s.warnedServed = time.Now()
		s.mu.Unlock()
		s.hooks.Logger.Warn(fmt.Sprintf("delayer: no server runs for this Redis and prefix, and jobs have been due for %s: start delayer, or check both addresses and prefixes",
			duration.Format(late.Round(time.Second))), "pool", stores[0].Keys().JobPool())
	}
}

func (e *Listener) is(state listenerState) bool {
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	return e.state == state
}

func (e *Listener) isCalm() bool {
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	return time.Since(e.lastHit) >= calmAfter && len(e.queues(func(q *readyQueue) bool { return q.isLost() && !q.isBusy() })) == 0
}

// check checks the ready queues and registers us for the empty ones.
func (e *Listener) check(queues []*readyQueue) error {
	if len(queues) == 0 {
		return nil
	}
	checks := e.question(queues)
	asked := make([]store.Check, len(checks))
	for i := range checks {
		asked[i] = checks[i].Check
	}
	found, err := store.CheckAll(e.shared.closing, asked...)
	switch {
	case store.OfOneSlot(err): // the next check may know more
		return nil
	case err != nil:
		return err
	}
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	e.learn(checks, found)
	return nil
}

// check is one check of ready queues of a partition.
type check struct {
	store.Check
	queues []*readyQueue
	news   []int // of each when the check was sent
	epoch  int   // of the listener when this was sent
}

// question makes the checks of the ready queues. They register us where we are not, and at one queue where we should be: if we are not, others
// may be missing, too.
func (e *Listener) question(queues []*readyQueue) (checks []*check) {
	e.shared.mu.Lock()
	defer e.shared.mu.Unlock()
	sample := queues[rand.IntN(len(queues))]
	of := map[*Partition]*check{}
	for _, q := range queues {
		k := of[q.partition]
		if k == nil {
			k = &check{epoch: e.epoch, Check: store.Check{Store: q.partition.store}}
			if e.state == subscribed {
				k.Waiter = e.id
			}
			of[q.partition], checks = k, append(checks, k)
		}
		since := time.Duration(-1)
		if len(q.topic.waiters) > 0 && (!q.registered || q == sample || time.Since(q.registeredAt) > registerAgain) {
			since = time.Since(q.topic.waiters[0].joined)
		}
		k.queues, k.news, k.Topics, k.Since = append(k.queues, q), append(k.news, q.news), append(k.Topics, q.topic.name), append(k.Since, since)
	}
	return checks
}

// learn takes in what checks have found. News that came after a check was sent is newer. If one of our registrations is missing, others may be
// missing too.
func (e *Listener) learn(checks []*check, found []store.Checked) {
	e.checks++
	for _, p := range e.partitions {
		p.setAway(false)
	}
	type hint struct {
		*readyQueue
		jobs, place int
	}
	full, hints := map[*Caller]bool{}, []hint(nil)
	for i, k := range checks {
		for j, q := range k.queues {
			jobs, place := found[i].Lengths[j], 0
			if jobs == 0 {
				continue
			}
			for _, w := range slices.Backward(q.topic.waiters) {
				full[w.Caller], place = true, w.place
			}
			hints = append(hints, hint{q, jobs, place})
		}
	}
	slices.SortStableFunc(hints, func(a, b hint) int { return cmp.Compare(a.place, b.place) }) // callers poll for their first topics first
	for _, h := range hints {
		h.found(h.jobs, false)
	}
	for i, k := range checks {
		for j, q := range k.queues {
			if found[i].Lengths[j] > 0 {
				continue
			}
			q.topic.recover(full)
			if k.Waiter != "" && k.Since[j] >= 0 && found[i].Registered && k.epoch == e.epoch && q.news == k.news[j] {
				if found[i].Added[j] && q.registered {
					e.loseAll()
					e.lookNow()
				}
				q.empty()
			}
		}
	}
	for _, p := range e.partitions {
		p.batches.Wake()
	}
}

// recover tells the waiters of an empty topic that Redis answers, except those that have another topic with jobs, because why these jobs do not
// arrive is unknown yet, and except while a partition is away.
func (t *topic) recover(full map[*Caller]bool) {
	for _, w := range t.waiters {
		if w.lastErr != nil && !w.isClaimed && !full[w.Caller] && !w.isAnyAway() {
			w.recovered()
		}
	}
}
