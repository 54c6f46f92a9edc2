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

// checks decides when queues are checked. It belongs to the goroutine of listen.
type checks struct {
	listener *listener
	next     time.Time
	round    []*waitQueue // queues still to be checked, if not all are checked together
	turn     int          // how many of them are checked together
	pages    bool         // there are too many to check all together
	began    time.Time
	asked    time.Time // the last attempt to subscribe
	served   bool      // a server of ours runs, which wakes us
	checked  time.Time // when served was last checked
	warned   time.Time // when we last said that none runs
}

// newChecks starts at a random time within checkEvery, because many Clients may have subscribed at once.
func newChecks(e *listener) *checks {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	e.lastHit, e.renew = now, false
	return &checks{listener: e, began: now, asked: now, next: now.Add(rand.N(checkEvery))}
}

// due returns the queues to check now.
func (k *checks) due() []*waitQueue {
	e := k.listener
	e.mu.Lock()
	defer e.mu.Unlock()
	e.regroup()
	e.node.forget(lingerFor)
	k.pages = e.tooMany()
	switch {
	case e.state == refused:
		return k.page(pollAtOnce, int(checkEvery/pollEvery))
	case k.pages:
		return k.unregisteredAnd(k.page(checkAtOnce, int(slowCheck/checkEvery)))
	}
	return e.node.waited()
}

// tooMany reports whether there are too many queues to check all together. With partitions there are no original servers, so whatever makes a job
// ready wakes us. Checks then only find jobs of Clients that died after they were woken, and may take longer.
func (e *listener) tooMany() bool {
	n := e.node
	if e.state != subscribed || len(n.dispatcher.partitions) == 1 {
		return false
	}
	queues := 0
	for _, s := range n.partitions {
		queues += len(s.queues)
	}
	return queues > checkAtOnce
}

// page returns the next queues, at least least of them, so that all are checked within that many turns.
func (k *checks) page(least, turns int) []*waitQueue {
	if len(k.round) == 0 {
		k.round = k.listener.node.waited()
		k.turn = max(least, 1+len(k.round)/turns)
	}
	n := min(k.turn, len(k.round))
	queues := k.round[:n]
	k.round = k.round[n:]
	return queues
}

// unregisteredAnd returns the page, and all queues for which we are not registered.
func (k *checks) unregisteredAnd(page []*waitQueue) (queues []*waitQueue) {
	for _, q := range page {
		if q.state == registered {
			queues = append(queues, q)
		}
	}
	for _, q := range k.listener.node.waited() {
		if q.state != registered {
			queues = append(queues, q)
		}
	}
	slices.SortStableFunc(queues, func(a, b *waitQueue) int { return cmp.Compare(a.partition.index, b.partition.index) })
	return queues
}

func (k *checks) subscribes() bool {
	e := k.listener
	e.mu.Lock()
	defer e.mu.Unlock()
	again := e.state == refused && (e.again || time.Since(k.asked) >= subscribeAgain)
	if again {
		k.asked, e.again = time.Now(), false
	}
	return again
}

func (k *checks) plan() {
	e := k.listener
	calm, every := e.isCalm(), unservedEvery
	if k.served {
		every = servedEvery
	}
	if time.Since(k.checked) > every && (calm || time.Since(k.began) > unservedEvery) {
		k.askForServer()
	}
	every = checkEvery
	switch {
	case e.is(refused):
		every = pollEvery
	case calm && k.served && !k.pages:
		every = slowCheck
	}
	if now := time.Now(); !k.next.After(now) || k.next.Sub(now) > every {
		k.next = now.Add(every)
	}
}

// askForServer asks whether a server runs. The first partition may be on another node than ours, which must not wait for it.
func (k *checks) askForServer() {
	e := k.listener
	ctx, cancel := context.WithTimeout(e.closing, servedWithin)
	defer cancel()
	k.served, k.checked = e.Dispatcher.partitions[0].store.Served(ctx), time.Now()
	switch {
	case ctx.Err() != nil:
		k.checked = k.checked.Add(servedEvery)
	case !k.served:
		k.expectMoved(ctx)
	}
}

// expectMoved warns if jobs have been due for a while and no server runs to make them ready. Most likely the server uses another Redis or prefix.
func (k *checks) expectMoved(ctx context.Context) {
	e := k.listener
	if time.Since(k.warned) < servedEvery {
		return
	}
	var here []*store.Store
	for _, p := range e.node.partitions {
		here = append(here, p.store)
	}
	if late := store.Overdue(ctx, here); late >= unservedEvery {
		k.warned = time.Now()
		e.hooks.Logger.Warn(fmt.Sprintf("delayer: no server runs for this Redis and prefix, and jobs have been due for %s: start delayer, or check both addresses and prefixes",
			duration.Format(late.Round(time.Second))), "pool", here[0].Keys().JobPool())
	}
}

func (e *listener) is(state listenerState) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state == state
}

func (e *listener) isCalm() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if time.Since(e.lastHit) < calmAfter {
		return false
	}
	for _, s := range e.node.partitions {
		for _, q := range s.queues {
			if (q.state == unknown || q.state == ready) && q.needsCheck() {
				return false
			}
		}
	}
	return true
}

// check checks the queues and registers us for the empty ones.
func (e *listener) check(queues []*waitQueue) error {
	if len(queues) == 0 {
		return nil
	}
	checks := e.question(queues)
	asked := make([]store.Poll, len(checks))
	for i := range checks {
		asked[i] = checks[i].Poll
	}
	found, err := store.PollAll(e.closing, asked...)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.learn(checks, found)
	return nil
}

// check is one check of queues in a partition.
type check struct {
	store.Poll
	queues []*waitQueue
	wakes  []int // of each queue, when the check was sent
	epoch  int   // of the listener, when this was sent
}

func (e *listener) newCheck(queues []*waitQueue) *check {
	n := len(queues)
	k := &check{queues: queues, epoch: e.epoch, wakes: make([]int, n),
		Poll: store.Poll{Store: queues[0].partition.store, Topics: make([]string, n), Since: make([]time.Duration, n)}}
	if e.state == subscribed {
		k.Waiter = e.id
	}
	for i, q := range queues {
		k.Topics[i], k.Since[i], k.wakes[i] = q.topic, -1, q.wakes
	}
	return k
}

func (e *listener) question(queues []*waitQueue) (checks []*check) {
	e.mu.Lock()
	defer e.mu.Unlock()
	probe := queues[rand.IntN(len(queues))]
	for len(queues) > 0 {
		n := 1
		for n < len(queues) && queues[n].partition == queues[0].partition {
			n++
		}
		k := e.newCheck(queues[:n])
		for i, q := range k.queues {
			if q.first != nil && (q.state != registered || q == probe || time.Since(q.registeredAt) > registerAgain) {
				k.Since[i] = time.Since(q.first.caller.joined)
			}
		}
		checks, queues = append(checks, k), queues[n:]
	}
	return checks
}

// learn takes in what checks have found. If one of our registrations is missing, others may be missing too.
func (e *listener) learn(checks []*check, found []store.Polled) {
	e.checks++
	e.node.setAway(false)
	full := map[*caller]bool{}
	for i, k := range checks {
		for j, q := range k.queues {
			jobs := found[i].Lengths[j]
			if q.wakes == k.wakes[j] && q.throttle == nil {
				e.stock.set(q, jobs)
			}
			if jobs == 0 {
				continue
			}
			for p := q.first; p != nil; p = p.next {
				full[p.caller] = true
			}
			q.on(foundJobs, jobs)
			q.goOn()
		}
	}
	for i, k := range checks {
		for j, q := range k.queues {
			if found[i].Lengths[j] > 0 {
				continue
			}
			q.recover(full)
			if added, ok := k.registers(j, found[i]); ok {
				if added && q.state == registered {
					e.lose()
				}
				q.on(empty, 0)
			}
		}
	}
	e.node.batches.Wake()
}

// registers reports whether the check has registered us for the queue, and whether we were not registered earlier. News that
// came after the check was sent wins.
func (k *check) registers(queue int, found store.Polled) (added, ok bool) {
	q := k.queues[queue]
	return found.Added[queue], k.Waiter != "" && k.Since[queue] >= 0 && found.Registered && k.epoch == q.partition.listener.epoch && q.wakes == k.wakes[queue]
}

// lose registers us everywhere again: one of our registrations was gone, so others may be.
func (e *listener) lose() {
	e.node.unheard()
	e.recheck = true
	e.signal()
}

// recover tells the callers of an empty queue that Redis answers, except callers that have another queue with jobs, because
// why these jobs do not arrive is unknown yet, and except while another node is away.
func (q *waitQueue) recover(full map[*caller]bool) {
	for p := q.first; p != nil; p = p.next {
		if c := p.caller; c.waits() && c.lastErr != nil && !full[c] && !q.partition.dispatcher.isAnyAway() {
			c.recovered()
		}
	}
}
