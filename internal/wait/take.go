package wait

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// MaxBatches is how many batches that take jobs may be in flight to a partition.
	MaxBatches = 4
	// maxTogether is how many polls one batch has. A large job delays those behind it.
	maxTogether = 16
	// maxTopics is how many topics one poll has.
	maxTopics = 250
	// shunFor is how long others are polled before a partition that did not answer, since a poll of it may take seconds.
	shunFor = 5 * time.Second
)

// Partition takes the jobs of one partition.
type Partition struct {
	shared   *Shared
	number   int // among them
	store    *store.Store
	batches  *batch.Sender
	listener *Listener
	turns    []*queue // to be polled, in the order of their turns
	unused   []string // topics of wake-ups that no caller here can use: the next Client is woken
	isAway   bool     // it did not answer the last poll or check
	shunned  time.Time
}

// NewPartition returns the Partition of the store's jobs. It needs a Listener.
func (s *Shared) NewPartition(of *store.Store) *Partition {
	p := &Partition{shared: s, number: len(s.partitions), store: of}
	s.partitions = append(s.partitions, p)
	p.batches = batch.NewSender(s.owner, of.Pipeline, &s.mu, p, MaxBatches)
	return p
}

// IsShunned reports whether the partition did not answer a moment ago, so that others should be polled first.
func (p *Partition) IsShunned() bool {
	p.shared.mu.Lock()
	defer p.shared.mu.Unlock()
	return time.Now().Before(p.shunned)
}

func (p *Partition) setAway(away bool) {
	if p.isAway = away; away {
		p.shunned = time.Now().Add(shunFor)
	} else {
		p.shunned = time.Time{}
	}
}

// queue is the callers that poll for the same topics in the same way. They share polls, one at a time.
type queue struct {
	partition *Partition
	kind      Kind
	from      []*readyQueue // more than one if it is a single caller's own
	indices   []int         // of the topics among those of that caller
	callers   []*Caller     // in the order in which they came
	inTurns   bool
	isOut     bool // a poll is in flight
}

func (s *Shared) topic(name string) *topic {
	t := s.topics[name]
	if t == nil {
		t = &topic{name: name, in: make([]readyQueue, len(s.partitions))}
		for i, p := range s.partitions {
			t.in[i].topic, t.in[i].partition = t, p
		}
		s.topics[name] = t
	}
	return t
}

// queue returns the queue of callers that want only this topic, and in that way.
func (q *readyQueue) queue(k *Kind) *queue {
	for _, of := range q.queues {
		if of.kind == *k {
			return of
		}
	}
	q.queues = slices.DeleteFunc(q.queues, func(q *queue) bool { return !q.inTurns && !q.isOut })
	of := &queue{partition: q.partition, from: []*readyQueue{q}, kind: *k}
	q.queues = append(q.queues, of)
	return of
}

// isBusy reports whether callers of this topic alone are being polled for.
func (q *readyQueue) isBusy() bool {
	return slices.ContainsFunc(q.queues, func(q *queue) bool { return q.inTurns || q.isOut })
}

// goOn polls for the first waiters if there is a hint. Without one, a check follows at once unless we are registered. It only queues
// the poll: code that calls it also calls batches.Wake, unless a batch of the partition runs it.
func (q *readyQueue) goOn() {
	switch e := q.partition.listener; {
	case len(q.topic.waiters) == 0:
		q.topic.retire()
	case q.jobs > 0:
		if i := q.firstFree(nil, 0); i >= 0 {
			q.queue(q.topic.waiters[i].kind).queueUp()
		}
	case !q.registered && q.throttle == nil && !q.isBusy() && e.state == subscribed:
		e.lookNow()
	}
}

// retire forgets the hints of a topic without callers. If only we were woken for a job, another Client is woken now.
func (t *topic) retire() {
	isNeeded := false
	for i := range t.in {
		q := &t.in[i]
		switch {
		case q.isBusy():
			isNeeded = true
			continue
		case q.owed:
			q.owed = false
			q.partition.passOn(t.name)
		}
		q.jobs = 0
		isNeeded = isNeeded || q.registered || q.throttle != nil
	}
	s := t.in[0].partition.shared
	if !isNeeded && s.topics[t.name] == t {
		delete(s.topics, t.name)
	}
}

// queueUp polls for the queue in its turn. While a poll is in flight, done decides.
func (q *queue) queueUp() {
	if !q.inTurns && !q.isOut {
		q.inTurns = true
		q.partition.turns = append(q.partition.turns, q)
	}
}

// Waiting implements batch.Queue. A queue loses its turn if its callers have left, and no hint concerns a caller that waits.
func (p *Partition) Waiting() bool {
	for len(p.turns) > 0 {
		q := p.turns[0]
		if of := q.from[0]; len(q.callers) > 0 || len(q.indices) == 0 && of.jobs > 0 && of.firstFree(&q.kind, 0) >= 0 {
			return true
		}
		p.turns, q.inTurns = p.turns[1:], false
		for _, of := range q.from {
			of.goOn()
		}
	}
	return len(p.unused) > 0
}

// Next implements batch.Queue. The polls of a batch want about as many jobs as a single pop may take, because Redis may run a whole
// batch without a break.
func (p *Partition) Next() (callers int, do func(*store.Pipeline, error)) {
	b := &polls{partition: p, unused: p.unused}
	p.unused = nil
	for jobs := 0; p.Waiting() && len(p.turns) > 0 && len(b.list) < maxTogether && jobs < store.MaxPop; {
		one := p.turns[0].newPoll()
		b.list, jobs, callers = append(b.list, one), jobs+one.N, callers+len(one.claims)
	}
	return callers + len(b.unused), b.make
}

// poll pops or reserves up to N jobs for the callers it claims.
type poll struct {
	Kind
	store.Wanted
	queue  *queue
	news   []int // of each topic when this was sent
	claims []claim
	epoch  int // of the listener when this was sent
	sentAt time.Time
	sent   *store.Call[store.Popped]
}

// claim is a caller that stays until the reply, and the most jobs it gets.
type claim struct {
	*Caller
	n int
}

// newPoll claims callers that wait for the topic, as many as there are hints for, and the queue's callers. So that these overtake nobody, it
// then claims as many that wait as one poll can serve. It is the queue's turn.
func (q *queue) newPoll() *poll {
	p := q.partition
	p.turns, q.inTurns, q.isOut = p.turns[1:], false, true
	one := &poll{Kind: q.kind, queue: q, epoch: p.listener.epoch}
	for _, of := range q.from {
		one.Topics, one.news = append(one.Topics, of.topic.name), append(one.news, of.news)
	}
	if of := q.from[0]; len(q.indices) == 0 && len(of.topic.waiters) > 0 {
		hints, wanted := of.jobs, 0
		for _, c := range q.callers {
			wanted += c.N
		}
		if wanted > 0 {
			hints = max(store.MaxPop-wanted, store.MaxPop/2)
		}
		one.claims = of.claim(&q.kind, hints)
	}
	for _, c := range one.claims {
		one.N += c.n
	}
	for n := 0; len(q.callers) > 0 && (n == 0 || one.N < store.MaxPop); n++ {
		c := q.callers[0]
		q.callers, c.in, c.isClaimed = q.callers[1:], nil, true
		one.claims, one.N = append(one.claims, claim{c, c.N}), one.N+c.N
	}
	for _, i := range q.indices {
		one.Limits = append(one.Limits, min(one.claims[0].limit(i), store.MaxPop))
	}
	one.N = min(one.N, store.MaxPop)
	if p.listener.state == subscribed {
		one.register()
	}
	return one
}

// register makes the poll register us as a waiter of the topics that it finds empty or, if other callers wait for them, leaves empty.
func (one *poll) register() {
	waits, waiting := false, 0
	for _, c := range one.claims {
		waits = waits || c.Waits
		if c.topics != nil {
			waiting++
		}
	}
	others := slices.ContainsFunc(one.queue.callers, func(c *Caller) bool { return c.Waits }) ||
		slices.ContainsFunc(one.queue.from, func(q *readyQueue) bool { return len(q.topic.waiters) > waiting })
	if waits || others {
		one.Registration = store.Registration{Waiter: one.queue.partition.listener.id, Since: time.Since(one.claims[0].joined), Always: others}
	}
}

// receive waits for the reply regardless of any context, because it may bring jobs. It reports jobs that may be lost with a reply.
func (one *poll) receive(h *Hooks) (store.Popped, error) {
	popped, err := one.sent.Wait(context.Background())
	if len(popped.Stale) > 0 || len(popped.Deferred) > 0 {
		h.Popped(popped)
	}
	if err != nil && !one.Reserves && store.KindOf(err) == store.NoAnswer {
		h.Lost(min(one.N, store.MaxPop))
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return popped, err
}

// polls is a batch of polls.
type polls struct {
	partition *Partition
	list      []*poll
	unused    []string
}

// make makes the polls, and passes on wake-ups that we have no use for. err says why there is no connection.
func (b *polls) make(p *store.Pipeline, err error) {
	s := b.partition
	var passing *store.Call[struct{}]
	if err == nil {
		for _, one := range b.list {
			if one.Reserves {
				one.sentAt = time.Now()
				one.sent = s.store.Reserve(one.Wanted, one.Reservation).Send(p)
			} else {
				one.sent = s.store.Pop(one.Wanted).Send(p)
			}
		}
		if len(b.unused) > 0 {
			passing = s.store.Wake(b.unused).Send(p)
		}
	}
	for _, one := range b.list {
		var popped store.Popped
		failed := err
		if err == nil {
			popped, failed = one.receive(&s.shared.hooks)
		}
		s.shared.mu.Lock()
		one.done(popped, failed)
		s.shared.mu.Unlock()
	}
	if passing != nil {
		passing.Wait(context.Background()) // errors do not matter: a check finds the jobs
	}
}

// done takes in the reply, and gives the callers their jobs. The queue keeps its turn if several were served: they may come back together.
func (one *poll) done(popped store.Popped, err error) {
	q := one.queue
	q.isOut = false
	isEmpty := one.learn(popped, err)
	if p := q.partition; p.isAway || err != nil {
		p.setAway(err != nil && store.Temporary(err))
	}
	jobs := Jobs{popped.Jobs, popped.Leases, one.sentAt}
	var again []*Caller
	for _, c := range one.claims {
		c.isClaimed = false
		own := jobs
		if len(one.claims) > 1 {
			own = jobs.cut(c.n)
		}
		if len(own.Jobs) > 0 {
			c.end(own, nil)
		} else if c.without(isEmpty, err) {
			c.in, again = q, append(again, c.Caller)
		}
	}
	if q.callers = slices.Insert(q.callers, 0, again...); len(q.callers) > 0 || len(one.claims) > 1 {
		q.queueUp()
	}
	for _, of := range q.from {
		if err == nil || of.jobs > 0 || len(of.topic.waiters) == 0 { // else a check at once would find the jobs that could not be taken, again and again
			of.goOn()
		}
	}
}

// learn takes in what the reply says about the topics, and reports whether all are empty.
func (one *poll) learn(popped store.Popped, err error) (allEmpty bool) {
	e := one.queue.partition.listener
	isRegistered := popped.Registered && one.epoch == e.epoch
	room, rest, allEmpty := one.N, popped.Jobs, true
	for i, q := range one.queue.from {
		wanted, got, left := room, 0, 0
		if one.Limits != nil {
			wanted = min(room, one.Limits[i])
		}
		if wanted == 0 { // there was no room for its jobs, so nothing was learned
			allEmpty = false
			continue
		}
		for got < len(rest) && rest[got].Topic == q.topic.name {
			got++
		}
		room, rest = room-got, rest[got:]
		if got > 0 {
			left = popped.Remaining[i]
			if q.byCheck {
				e.lastHit = time.Now()
			}
		}
		allEmpty = allEmpty && err == nil && got < wanted && !popped.More
		isThrottled := popped.Throttled != nil && popped.Throttled[i] != 0
		switch {
		case q.news != one.news[i]:
		case err != nil:
			q.jobs, q.byCheck = 0, false
		case isThrottled:
			q.registered, q.jobs, q.owed, q.byCheck = false, max(left, 0), false, false
			q.throttleFor(popped.Throttled[i], isRegistered)
		case isRegistered && left == 0 && (one.Always || got < wanted) && !popped.More:
			q.empty()
		default:
			if popped.More {
				left = max(left, 1)
			}
			q.registered, q.jobs, q.owed, q.byCheck = false, max(left, 0), false, false
		}
	}
	return allEmpty
}

// Jobs is the result of a Request. Leases, and when they were requested, are set only if it reserves.
type Jobs struct {
	Jobs    []store.Job
	Leases  []store.Lease
	AskedAt time.Time
}

// cut takes off the first jobs, up to n.
func (j *Jobs) cut(n int) Jobs {
	n = min(n, len(j.Jobs))
	first := Jobs{Jobs: j.Jobs[:n:n], AskedAt: j.AskedAt}
	j.Jobs = j.Jobs[n:]
	if j.Leases != nil {
		first.Leases, j.Leases = j.Leases[:n:n], j.Leases[n:]
	}
	return first
}

// Store returns the partition's store.
func (p *Partition) Store() *store.Store { return p.store }
