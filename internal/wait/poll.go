package wait

import (
	"context"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// poll pops or reserves up to N jobs for the callers it claims: callers of one queue, or one caller of
// several topics, with an optional limit for each topic.
type poll struct {
	Kind
	store.Wanted
	partition *partition
	store     *store.Store
	queues    []polledQueue // of its topics
	claims    []claim
	several   *severalTopics // the caller of several topics, or nil
	pending   []*position    // of the queue, when the poll was made
	epoch     int            // of the listener, when this was sent
	throttled bool           // a limit lets no more jobs of some queue be reserved, so its reply says nothing about jobs to pop

	sentAt time.Time
	call   *store.Call[store.Popped]
}

// polledQueue is a queue, and its wakes when the poll was sent. Later news is newer than the poll's reply.
type polledQueue struct {
	*waitQueue
	wakes int
}

// claim is a caller that stays until the reply, and the most jobs it wants.
type claim struct {
	*caller
	n int
}

// register makes the poll register us as a waiter of the topics whose queues it finds empty or, if other callers wait
// for them, leaves empty.
func (t *poll) register(e *listener) {
	waits, others := false, false
	for _, c := range t.claims {
		waits = waits || c.Waits && !c.comesBack
	}
	for _, q := range t.queues {
		others = others || q.callers > len(t.claims)
	}
	if waits || others {
		t.Registration = store.Registration{Waiter: e.id, Since: time.Since(t.claims[0].joined), Always: others}
	}
}

func (t *poll) send(p *store.Pipeline) {
	if t.Reserves {
		t.sentAt = time.Now()
		t.call = t.store.Reserve(t.Wanted, t.Reservation).Send(p)
	} else {
		t.call = t.store.Pop(t.Wanted).Send(p)
	}
}

// receive waits for the reply regardless of any context, because it may bring jobs. It reports jobs that may be lost with a reply.
func (t *poll) receive(d *Dispatcher) (store.Popped, error) {
	popped, err := t.call.Wait(context.Background())
	if len(popped.Stale) > 0 || len(popped.Deferred) > 0 {
		d.hooks.Popped(popped)
	}
	if err != nil && !t.Reserves && store.KindOf(err) == store.NoAnswer {
		d.hooks.Lost(min(t.N, store.MaxPop))
		err = fmt.Errorf("%w: %w", ErrLost, err)
	}
	return popped, err
}

// done takes in the reply, gives the callers their jobs, and answers callers that wait to learn whether there is a job.
func (t *poll) done(popped store.Popped, err error) {
	isEmpty := t.learn(popped, err)
	n := t.partition.node
	if isAway := err != nil && store.Temporary(err); isAway || n.isAway {
		n.setAway(isAway)
	}
	if t.several != nil && isEmpty {
		t.several.foundNone(len(t.queues))
	}
	jobs := Jobs{popped.Jobs, popped.Leases, t.sentAt}
	for _, c := range t.claims {
		own := jobs
		if len(t.claims) > 1 {
			own = jobs.cut(c.n)
		}
		if len(own.Jobs) == 0 {
			c.release(err)
			continue
		}
		c.claimed = false
		c.end(own, nil)
	}
	d := n.dispatcher
	switch {
	case t.several == nil:
		t.queues[0].on(ended, 0)
		if t.queues[0].callers > 0 || len(t.claims) > 1 || len(d.partitions) > 1 {
			t.end(t.queues[0].waitQueue, isEmpty, err)
		}
	case isEmpty:
		t.several.pollNext()
	}
	for _, q := range t.queues {
		if q.callers == 0 {
			q.retire()
		} else {
			q.goOn()
		}
	}
	if len(d.blocked) > 0 || len(d.nodes) > 1 {
		d.unblock(n)
	}
}

// end continues with the queue, which keeps its turn, after a poll for its callers.
func (t *poll) end(q *waitQueue, isEmpty bool, err error) {
	d := t.partition.dispatcher
	if len(d.partitions) > 1 && len(t.pending) > 0 {
		if d.polling[q.topic]--; d.polling[q.topic] == 0 {
			delete(d.polling, q.topic)
		}
	}
	if q.callers > 0 || len(t.claims) > 1 { // callers that were served may come back together
		q.queueUp()
		q.tell(t, isEmpty, err)
	}
}

// learn takes in what the reply says about the queues, and reports whether all are empty.
func (t *poll) learn(popped store.Popped, err error) (allEmpty bool) {
	isRegistered := popped.Registered && t.epoch == t.partition.listener.epoch
	room, rest, allEmpty := t.N, popped.Jobs, true
	for i := range t.queues {
		q := &t.queues[i]
		asked, got, jobs := room, 0, 0
		if t.Limits != nil {
			asked = min(room, t.Limits[i])
		}
		if asked == 0 { // there was no room for its jobs, so nothing was learned
			allEmpty = false
			continue
		}
		for got < len(rest) && rest[got].Topic == q.topic {
			got++
		}
		room, rest = room-got, rest[got:]
		if got > 0 {
			jobs = popped.Remaining[i]
			if q.byCheck {
				t.partition.listener.lastHit = time.Now()
			}
		}
		isThrottled := popped.Throttled != nil && popped.Throttled[i] != 0
		t.throttled = t.throttled || isThrottled
		if stock := t.partition.dispatcher.stock; stock != nil && err == nil {
			stock.learn(q, asked, got, jobs, isThrottled, popped.More, t.several != nil && t.several.aimed)
		}
		allEmpty = allEmpty && err == nil && got < asked && !popped.More
		if q.waitQueue.wakes != q.wakes {
			continue
		}
		switch {
		case err != nil:
			q.on(failed, 0)
		case isThrottled:
			q.on(left, max(jobs, 0))
			q.throttleFor(popped.Throttled[i], isRegistered)
		case popped.More:
			q.on(left, max(jobs, 1))
		case isRegistered && jobs == 0 && (t.Always || got < asked):
			q.on(empty, 0)
		default:
			q.on(left, max(jobs, 0))
		}
	}
	return allEmpty
}

// pollBatch is a batch of polls and probes.
type pollBatch struct {
	node   *node
	polls  []*poll
	probes []*probe
	woken  []wakeUp // to be passed on
}

// make makes the polls and probes, and passes on wake-ups that we have no use for. err says why there is no connection.
func (b *pollBatch) make(p *store.Pipeline, err error) {
	var passing []*store.Call[struct{}]
	if err == nil {
		if len(b.node.partitions) > 1 {
			p.OnRefusal = store.NoWait
		}
		for _, t := range b.polls {
			t.send(p)
		}
		for _, s := range b.probes {
			s.send(p)
		}
		if len(b.woken) > 0 {
			passing = b.passOn(p)
		}
	}
	d := b.node.dispatcher
	for _, t := range b.polls {
		var popped store.Popped
		failed := err
		if err == nil {
			popped, failed = t.receive(d)
		}
		d.mu.Lock()
		t.done(popped, failed)
		d.mu.Unlock()
	}
	for _, s := range b.probes {
		var found store.Polled
		failed := err
		if err == nil && s.sent != nil {
			found, failed = s.sent.Wait(context.Background())
		}
		d.mu.Lock()
		s.done(found, failed)
		d.mu.Unlock()
	}
	for _, pass := range passing {
		pass.Wait(context.Background()) // errors do not matter: a check finds the jobs
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if b.node.isDissolved {
		d.wakeAll()
	}
}

func (b *pollBatch) passOn(p *store.Pipeline) (sent []*store.Call[struct{}]) {
	topics := map[*partition][]string{}
	for _, w := range b.woken {
		topics[w.partition] = append(topics[w.partition], w.topic)
	}
	for s, theirs := range topics {
		sent = append(sent, s.store.Wake(theirs).Send(p))
	}
	return sent
}

// probe checks queues of a partition for callers that need to know which of them have jobs.
type probe struct {
	partition *partition
	queues    []*waitQueue
	pending   map[*waitQueue][]*position
	check     *check // nil if no caller needs it any more
	sent      *store.Polling
}

// probe checks all pending queues of the caller. Probes of one partition are shared between callers.
func (c *caller) probe() {
	for _, p := range c.pending {
		s := p.queue.partition
		if s.probe == nil {
			s.probe = &probe{partition: s, pending: map[*waitQueue][]*position{}}
			s.probes = append(s.probes, s.probe)
		}
		s.probe.add(p)
	}
	c.probes = len(c.pending)
}

// isProbing reports whether the caller itself is about to find out where there are jobs.
func (c *caller) isProbing() bool { return c.comesBack || c.probes > 0 && c.sorts }

func (s *probe) add(p *position) {
	if s.pending[p.queue] == nil {
		s.queues = append(s.queues, p.queue)
	}
	s.pending[p.queue] = append(s.pending[p.queue], p)
}

// begin makes the check once there is a connection for it. If a caller waits, the check registers us for empty queues.
func (s *probe) begin() {
	s.partition.probe = nil
	var queues []*waitQueue
	var since []time.Duration
	for _, q := range s.queues {
		waited, isPending := time.Duration(-1), false
		for _, p := range s.pending[q] {
			isPending = isPending || p.pending
			if p.pending && p.caller.Waits && !p.caller.comesBack {
				waited = max(waited, time.Since(p.caller.joined))
			}
		}
		if isPending {
			queues, since = append(queues, q), append(since, waited)
		}
	}
	if len(queues) > 0 {
		s.check = s.partition.listener.newCheck(queues)
		s.check.Since = since
	}
}

func (s *probe) send(p *store.Pipeline) {
	if s.check != nil {
		s.sent = s.check.Send(p)
	}
}

// done takes in what was found and tells the callers.
func (s *probe) done(found store.Polled, err error) {
	if s.check != nil {
		s.partition.setAway(err != nil)
		s.tell(found, err)
	}
	for _, positions := range s.pending {
		for _, p := range positions {
			c := p.caller
			if c.probes--; c.probes <= 0 && len(c.pending) > 0 {
				c.topics.probed()
			}
		}
	}
	s.partition.dispatcher.unblock(s.partition.node)
}

func (s *probe) tell(found store.Polled, err error) {
	if err == nil {
		s.partition.listener.learn([]*check{s.check}, []store.Polled{found})
	}
	for i, q := range s.check.queues {
		for _, p := range s.pending[q] {
			switch {
			case err != nil || found.Lengths[i] == 0:
				p.answered(err)
			case p.pending && !p.caller.sorts:
				q.ask(p)
			}
		}
	}
}
