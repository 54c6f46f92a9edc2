// Package poll gets jobs out of Redis for callers who want them at once, or wait for them.
//
// A caller has a position in a queue for each topic that it wants jobs of. Nothing is taken out of Redis
// before a caller is there to get it, and nothing is ever put back: a poll claims its callers, which
// stay until its answer, which the connection's timeouts bound. Callers that are not claimed can leave
// at once.
//
// Which caller gets a job: the first in the topic's queue that is not claimed (queue.newPoll). Which Client
// is woken for it, Redis decides: the one that has waited longest (wake in store/lua/parts/queue.lua). Pull
// asks past both.
//
// To be entered is to stand among the topic's waiters in Redis. Whatever makes a job ready polls the
// first of these out and wakes it, alone. So a caller that joins a queue that is entered need not
// ask. A check, now and then, finds what nobody has told of: see listener.
//
// Jobs may be in several partitions. Each is a partition with queues of its own, and a caller has a position in those of all.
// Partitions that the same connections lead to are a node: they share round trips and a subscription. A
// caller of one topic asks one partition, in turn, and then checks at the others; one of several topics checks at all of them
// before anything is taken for it, unless it is known where there are jobs: see caller.ask, probe and stock.
//
// What is known of a topic in a partition, and what changes it:
//
//	state    | known of the ready queue      | goes on
//	unknown  | nothing                       | a caller asks → asked
//	ready    | it has jobs                   | a caller is free → asked; no callers → passed on → unknown
//	asked    | a poll is under way           | brought all it wanted: ready, or unknown if none are left
//	         |                               | brought less, and we were entered → entered; else unknown
//	         |                               | brought less because of a limit → held
//	         |                               | failed → unknown
//	         |                               | woken meanwhile → ready
//	entered  | it is empty, and Redis wakes  | woken, or a check finds jobs → ready
//	         | us when it gets a job         | the subscription ends → unknown
//	held     | the topic's limit lets no     | woken, or its time is over → ready; a check finds it empty → entered
//	         | more be reserved now          | the subscription ends → unknown
package wait

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/coalesce"
	"github.com/mix-basic/delayer/internal/store"
)

// Kind is how jobs are taken: the zero Kind pops them.
type Kind struct {
	Reserves bool
	store.Reservation
}

// Request is what a caller wants: N jobs at most.
type Request struct {
	Topics  []string // what comes first goes first
	N       int
	Waits   bool          // for a job if there is none
	Timeout time.Duration // how long at most, 0 is as long as its context allows
	Kind
	// Limits are how many jobs of each topic are wanted at most, and Kinds how they are taken. nil is N of
	// each, all taken as Kind says.
	Limits []int
	Kinds  []Kind
}

// Jobs are what came of a Request: leases, and when they were asked for, only if it reserves.
type Jobs struct {
	Jobs    []store.Job
	Leases  []store.Lease
	AskedAt time.Time
}

// Add appends what came later. When that was asked for counts as when the first was.
func (j *Jobs) Add(next Jobs) {
	if len(j.Jobs) == 0 {
		*j = next
		return
	}
	j.Jobs, j.Leases = append(j.Jobs, next.Jobs...), append(j.Leases, next.Leases...)
}

// cut polls the first jobs off, n at most.
func (j *Jobs) cut(n int) Jobs {
	n = min(n, len(j.Jobs))
	first := Jobs{Jobs: j.Jobs[:n:n], AskedAt: j.AskedAt}
	j.Jobs = j.Jobs[n:]
	if j.Leases != nil {
		first.Leases, j.Leases = j.Leases[:n:n], j.Leases[n:]
	}
	return first
}

var (
	// ErrLost: the answer to a pop did not arrive, and the job it may have brought is lost.
	ErrLost = errors.New("the answer was lost, and with it the job if there was one")
	// ErrNoAnswer is a timeout that ran out before Redis said whether there is a job.
	ErrNoAnswer = errors.New("redis did not answer within the timeout")
)

// Dispatcher serves the callers of a Client.
type Dispatcher struct {
	owner      *coalesce.Owner
	closing    context.Context
	hooks      Hooks
	mu         sync.Mutex // guards all queues, callers and listeners
	nodes      []*node
	partitions []*partition // of all nodes
	turn       int          // which partition is asked first next
	stock      *stock
	aimed      map[*caller]bool // callers that have positions in the queues of one partition only
	polling    map[string]int   // how many polls of queues that were asked are under way for a topic
	blocked    []*waitQueue     // to be asked once callers are not claimed any more
	epochs     int              // of all listeners
	closed     bool
}

// Hooks are what a Dispatcher's owner is told of.
type Hooks struct {
	Logger *slog.Logger
	Popped func(store.Popped) // each answer
	Lost   func(jobs int)     // as many jobs may be lost at most with an answer
}

// New makes a Dispatcher of the jobs of all the stores. closing ends when Close is about to be called.
func New(closing context.Context, owner *coalesce.Owner, hooks Hooks, stores ...*store.Store) *Dispatcher {
	t := &Dispatcher{owner: owner, closing: closing, hooks: hooks, polling: map[string]int{}, aimed: map[*caller]bool{}, stock: newStock(len(stores))}
	t.turn = rand.IntN(len(stores)) // or all Clients would begin with the same one
	of := map[any]*node{}
	for _, s := range stores {
		n := of[s.Node()]
		if n == nil {
			n = newNode(t, s)
			t.nodes, of[s.Node()] = append(t.nodes, n), n
		}
		n.add(s)
	}
	return t
}

// Take gets as many jobs as are wanted and there. If there is none it waits for one, or, if the
// caller does not wait, fails with ErrEmpty.
func (t *Dispatcher) Take(ctx context.Context, r Request) (Jobs, error) {
	whole := ctx
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
		defer cancel()
	}
	answers := make(chan answer, 1)
	c := &caller{Request: r, lastErr: ErrNoAnswer, answer: func(a answer) { answers <- a }}
	lead, err := t.join(c)
	if err != nil {
		return Jobs{}, err
	}
	if lead != nil {
		lead(ctx)
	}
	select {
	case a := <-answers:
		return a.Jobs, a.err
	case <-ctx.Done():
		t.leave(c, cmp.Or(whole.Err(), store.ErrEmpty))
	}
	a := <-answers
	return a.Jobs, a.err
}

// TakeFunc is Take without a goroutine that waits: f is called, in one of its own, with what Take
// would have returned.
func (t *Dispatcher) TakeFunc(ctx context.Context, r Request, f func(Jobs, error)) {
	whole := ctx
	var cancel context.CancelFunc // ends the asking, too
	if r.Timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, r.Timeout)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	stop, joined := func() bool { return true }, make(chan struct{})
	c := &caller{Request: r, lastErr: ErrNoAnswer}
	c.answer = func(a answer) {
		go func() {
			<-joined
			stop()
			cancel()
			f(a.Jobs, a.err)
		}()
	}
	lead, err := t.join(c)
	if err != nil {
		c.answer(answer{err: err})
	} else {
		stop = context.AfterFunc(ctx, func() { t.leave(c, cmp.Or(whole.Err(), store.ErrEmpty)) })
	}
	if lead != nil {
		t.owner.Running.Add(1)
		go func() {
			defer t.owner.Running.Done()
			lead(ctx)
		}()
	}
	close(joined)
}

// join puts the caller into the queues of its topics: of a partition that is believed to have jobs, or of each. Those of which it is not known
// that they are empty are asked. If it returns a func, the caller has to call that, which asks Redis; else others do.
func (t *Dispatcher) join(c *caller) (lead func(context.Context), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, t.owner.Closed
	}
	t.regroup()
	c.joined = time.Now()
	if !t.aim(c) {
		t.joinAll(c)
	}
	if len(c.pending) == 0 {
		c.recovered()
		return nil, nil
	}
	first := c.pending[0].queue
	shares := !c.pollsAlone() && (first.queued || first.busy)
	if c.poll(); shares { // whoever asks for those ahead goes on with this one
		return nil, nil
	}
	for _, n := range t.nodes {
		if lead == nil && n.Waiting() && n.batches.TryLead() {
			lead = n.batches.Lead
		} else {
			n.batches.Wake()
		}
	}
	return lead, nil
}

// joinAll puts the caller into the queues of its topics, of each partition.
func (t *Dispatcher) joinAll(c *caller) {
	now := time.Now()
	c.positions = make([]position, 0, len(t.partitions)*len(c.Topics)) // queues point into it
	for i, topic := range c.Topics {
		t.inTurn(now, func(s *partition) { s.queue(topic).push(c, i) })
	}
	c.pollAll()
}

// inTurn calls do for each partition, in the order in which they are to be asked now: that whose turn it is first, and last those of
// nodes that are shunned.
func (t *Dispatcher) inTurn(now time.Time, do func(*partition)) {
	for _, shunned := range [...]bool{false, true} {
		for k := range t.partitions {
			if s := t.partitions[(t.turn+k)%len(t.partitions)]; now.Before(s.shunned) == shunned {
				do(s)
			}
		}
	}
}

// leave ends the caller's wait: at once, or with the answer of the poll that is under way for it.
func (t *Dispatcher) leave(c *caller, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c.end(Jobs{}, why)
}

// Close ends all waits with the owner's error.
func (t *Dispatcher) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, c := range t.partitions[0].callers() { // who is in a queue of each
		c.end(Jobs{}, t.owner.Closed)
	}
	for c := range t.aimed {
		c.end(Jobs{}, t.owner.Closed)
	}
}

// isAllAway reports whether no node answers, isAnyAway whether there is one that does not.
func (t *Dispatcher) isAllAway() bool {
	return !slices.ContainsFunc(t.nodes, func(n *node) bool { return !n.isAway })
}

func (t *Dispatcher) isAnyAway() bool {
	return slices.ContainsFunc(t.nodes, func(n *node) bool { return n.isAway })
}

// Pull polls up to n jobs of one topic for a caller who holds the pipeline, past those who wait. more
// reports whether there may be jobs although fewer came than were wanted.
func (t *Dispatcher) Pull(s *store.Store, p *store.Pipeline, k Kind, topic string, n int) (got Jobs, more bool, err error) {
	wanted := &poll{Kind: k, n: n}
	wanted.sendWanted(s, p, store.Wanted{Topics: []string{topic}, N: n})
	popped, err := wanted.receive(t)
	return Jobs{popped.Jobs, popped.Leases, wanted.askedAt}, popped.More, err
}
