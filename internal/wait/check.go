package wait

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// checks says when queues are looked at. It is for one goroutine, that of listen.
type checks struct {
	listener *listener
	next     time.Time
	round    []*waitQueue // queues whose turn is to come, where they are not checked all at a time
	turn     int          // so many of them at a time
	pages    bool         // there are too many for all at a time
	asked    time.Time    // when we last tried to subscribe
	served   bool         // a server runs that wakes us
	checked  time.Time    // when that was last asked
}

// newChecks begins at some moment within checkEvery, as many Clients may have subscribed at once.
func newChecks(e *listener) *checks {
	e.dispatcher().mu.Lock()
	defer e.dispatcher().mu.Unlock()
	now := time.Now()
	e.lastHit, e.renew = now, false
	return &checks{listener: e, asked: now, next: now.Add(rand.N(checkEvery))}
}

// due are the queues whose turn it is.
func (k *checks) due() []*waitQueue {
	e := k.listener
	e.dispatcher().mu.Lock()
	defer e.dispatcher().mu.Unlock()
	e.dispatcher().regroup()
	e.node.forget(lingerFor)
	k.pages = e.tooMany()
	switch {
	case e.state == refused:
		return k.page(PollAtOnce, int(checkEvery/pollEvery))
	case k.pages:
		return k.unregisteredAnd(k.page(checkAtOnce, int(slowCheck/checkEvery)))
	}
	return e.node.waited()
}

// tooMany reports whether the queues are too many to be checked at a time. No server of the original knows of partitions, so whatever makes a job
// ready there wakes us: a check finds what a Client has left that died after it was woken, and that may take longer.
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

// page are the queues whose turn it is if all have had theirs within so many turns; at least so many.
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

// unregisteredAnd are these queues, and all for which nobody may wake us.
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

// subscribes reports whether it is time to try to subscribe again.
func (k *checks) subscribes() bool {
	e := k.listener
	e.dispatcher().mu.Lock()
	defer e.dispatcher().mu.Unlock()
	again := e.state == refused && (e.again || time.Since(k.asked) >= subscribeAgain)
	if again {
		k.asked, e.again = time.Now(), false
	}
	return again
}

// plan sets when the next check is due.
func (k *checks) plan() {
	e := k.listener
	calm := e.isCalm()
	if calm && time.Since(k.checked) > time.Minute {
		k.served, k.checked = e.dispatcher().partitions[0].store.Served(e.closing()), time.Now()
	}
	every := checkEvery
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

func (e *listener) is(state listenerState) bool {
	e.dispatcher().mu.Lock()
	defer e.dispatcher().mu.Unlock()
	return e.state == state
}

// isCalm reports whether we are registered wherever callers wait, and checks have found nothing for long.
func (e *listener) isCalm() bool {
	e.dispatcher().mu.Lock()
	defer e.dispatcher().mu.Unlock()
	if time.Since(e.lastHit) < calmAfter {
		return false
	}
	for _, q := range e.node.waited() {
		if q.state == unknown || q.state == ready {
			return false
		}
	}
	return true
}

// check checks the queues, and registers us where it finds no jobs.
func (e *listener) check(queues []*waitQueue) error {
	if len(queues) == 0 {
		return nil
	}
	checks := e.question(queues)
	asked := make([]store.LookAt, len(checks))
	for i := range checks {
		asked[i] = checks[i].LookAt
	}
	found, err := store.Look(e.closing(), asked...)
	if err != nil {
		return err
	}
	e.dispatcher().mu.Lock()
	defer e.dispatcher().mu.Unlock()
	e.learn(checks, found)
	return nil
}

// check is one at queues of one partition.
type check struct {
	store.LookAt
	queues []*waitQueue
	wakes  []int // of each, when it was sent
	epoch  int   // of the listener, when it was sent
}

// newCheck is one at these queues. It does not register us yet.
func (e *listener) newCheck(queues []*waitQueue) *check {
	k := &check{queues: queues, epoch: e.epoch, LookAt: store.LookAt{Store: queues[0].partition.store}}
	if e.state == subscribed {
		k.Waiter = e.id
	}
	for _, q := range queues {
		k.Topics, k.Since = append(k.Topics, q.topic), append(k.Since, -1)
		k.wakes = append(k.wakes, q.wakes)
	}
	return k
}

// question is what a check asks each partition.
func (e *listener) question(queues []*waitQueue) (checks []*check) {
	e.dispatcher().mu.Lock()
	defer e.dispatcher().mu.Unlock()
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

// learn notes what checks have found. A registration of ours that is missing means that others may be, too.
func (e *listener) learn(checks []*check, found []store.Looked) {
	e.checks++
	e.node.setAway(false)
	full := map[*caller]bool{}
	for i, k := range checks {
		for j, q := range k.queues {
			jobs := found[i].Lengths[j]
			if q.wakes == k.wakes[j] && q.throttle == nil {
				e.dispatcher().stock.set(q, jobs)
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

// registers reports whether the check has registered us for the queue, and whether we were not before. What we were
// told since it was sent is newer.
func (k *check) registers(queue int, found store.Looked) (added, ok bool) {
	q := k.queues[queue]
	return found.Added[queue], k.Waiter != "" && k.Since[queue] >= 0 && found.Entered && k.epoch == q.partition.listener.epoch && q.wakes == k.wakes[queue]
}

// lose has us register everywhere anew: a registration of ours was gone, so others may be.
func (e *listener) lose() {
	e.node.unheard()
	e.recheck = true
	e.signal()
}

// recover tells the callers of an empty queue that Redis answers, unless another queue of theirs has jobs: why
// these do not come is not known yet; nor while another node is away.
func (q *waitQueue) recover(full map[*caller]bool) {
	for p := q.first; p != nil; p = p.next {
		if c := p.caller; c.waits() && c.lastErr != nil && !full[c] && !q.partition.dispatcher.isAnyAway() {
			c.recovered()
		}
	}
}
