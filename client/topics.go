package client

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// topics are the topics that Pop and BPop are called for, and their callers.
//
// Nothing is taken out of Redis before somebody is there to get it, and nothing
// is ever put back. A caller is claimed by one pop at a time. From then until its
// answer, which the connection's timeouts bound, the caller stays and gets what
// the pop has brought. While it is not claimed it can leave at once.
type topics struct {
	client *Client

	mu     sync.Mutex
	queues map[queueKey]*topicQueue
	closed bool
}

type queueKey struct {
	partition *partition
	topic     string
}

// topicQueue is a ready queue that has callers, or had some lately.
type topicQueue struct {
	coalescer // of one pop at a time, so that callers are served in their order
	queueKey
	callers list.List // of *caller, in the order in which they came
	asking  []*caller // those who want to know whether there is a job now
	ready   int       // how many jobs are believed to be there
	heard   int       // counts what made us believe so
	hearing           // of new ones
	rivals  int       // about how many other Clients hear the same and are faster
	delayed bool      // a pop will be made soon
	pending int       // for that many jobs
}

// caller is somebody who wants one job.
type caller struct {
	stays   bool            // and waits when there is none
	queues  []*topicQueue   // where it may come from
	places  []*list.Element // in these; nil when the caller has its answer
	asks    int             // how many of these it has asked and got no answer from
	claimed bool            // a pop is under way for it
	leaving error           // why it wanted to go while it was claimed
	trouble error           // why it is not known whether there is a job
	lost    error           // of a pop that may have taken one, which did not arrive
	since   time.Time       // how long there has been trouble
	answer  chan answer     // holds one
}

// Many Clients may hear of one job. So that not all of them ask for it at the same
// moment, one that comes too late as a rule waits up to rivalDelay for each of its
// rivals before it asks: then the first comes as soon as before, almost, and who is still
// waiting hears of further jobs meanwhile, and asks once for all of them.
const (
	rivalDelay = 500 * time.Microsecond
	maxRivals  = 10
)

type answer struct {
	job store.Job
	err error
}

// errNoAnswer is a timeout that ran out before Redis said whether there is a job.
var errNoAnswer = errors.New("redis did not answer within the timeout")

// pop gets a job of one of the topics, the first that has one. If there is none it
// fails with ErrEmpty, or, if the caller stays, waits for one until the timeout; 0 is none.
func (ts *topics) pop(ctx context.Context, names []string, stays bool, timeout time.Duration) (store.Job, error) {
	whole := ctx
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	c := &caller{stays: stays, trouble: errNoAnswer, answer: make(chan answer, 1)}
	ask, err := ts.join(c, names)
	if err != nil {
		return store.Job{}, err
	}
	if ask != nil {
		ask(ctx)
	}
	select {
	case a := <-c.answer:
		return a.job, a.err
	case <-ctx.Done():
		ts.leave(c, cmp.Or(whole.Err(), ErrEmpty))
	}
	a := <-c.answer
	return a.job, a.err
}

// join puts the caller behind those who want a job of the same topics. If it comes
// back with a func, the caller has to ask for itself.
func (ts *topics) join(c *caller, names []string) (ask func(context.Context), err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.closed {
		return nil, ErrClosed
	}
	first := true
	for _, partition := range ts.client.partitions {
		for _, name := range names {
			q := ts.queue(queueKey{partition, name})
			if slices.Contains(c.queues, q) {
				continue
			}
			first = first && !q.isWaitedFor()
			c.queues, c.places = append(c.queues, q), append(c.places, q.callers.PushBack(c))
		}
	}
	q := c.queues[0]
	switch {
	case len(c.queues) == 1 && q.mayLead():
		c.asks = 1
		q.asking = append(q.asking, c)
		return q.lead, nil
	case first && len(c.queues) > 1 && len(ts.client.partitions) == 1:
		c.asks = 1
		return func(ctx context.Context) { ts.popOfSeveral(ctx, c, names) }, nil
	}
	c.askAll()
	return nil, nil
}

// isWaitedFor reports whether the first caller has found the queue empty and waits.
func (q *topicQueue) isWaitedFor() bool {
	first := q.callers.Front()
	return first != nil && first.Value.(*caller).asks == 0
}

// askAll has each of the caller's queues looked at.
func (c *caller) askAll() {
	c.asks = len(c.queues)
	for _, q := range c.queues {
		q.asking = append(q.asking, c)
		q.wake()
	}
}

func (ts *topics) queue(key queueKey) *topicQueue {
	q := ts.queues[key]
	if q == nil {
		q = &topicQueue{queueKey: key}
		q.coalescer = coalescer{client: ts.client, store: key.partition.store, mu: &ts.mu, queue: q, most: 1}
		ts.queues[key] = q
	}
	return q
}

// leave ends the caller's wait: at once, or with the answer of the pop that is
// under way for it.
func (ts *topics) leave(c *caller, why error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	c.end(store.Job{}, why)
}

// close ends all waits with ErrClosed.
func (ts *topics) close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.closed = true
	for _, q := range ts.queues {
		for e := q.callers.Front(); e != nil; {
			c := e.Value.(*caller)
			e = e.Next()
			c.end(store.Job{}, ErrClosed)
		}
	}
}

// end gives the caller its answer, unless it has one. While a pop is under way for
// it, that comes first.
func (c *caller) end(job store.Job, err error) {
	switch {
	case c.places == nil:
		return
	case c.claimed:
		c.leaving = cmp.Or(c.leaving, err)
		return
	}
	for i, q := range c.queues {
		q.callers.Remove(c.places[i])
		q.idle()
	}
	c.places = nil
	if err == ErrEmpty {
		err = cmp.Or(c.lost, c.trouble, err)
	} else if err != nil && c.lost != nil && err != c.lost {
		err = fmt.Errorf("%w; before that: %w", err, c.lost)
	}
	c.answer <- answer{job, err}
}

// isEmpty tells the caller that one of its queues was empty.
func (c *caller) isEmpty() {
	if c.asks--; c.asks > 0 {
		return
	}
	c.relieved()
	c.stay(ErrEmpty)
}

// stay has the caller wait, or, if that is not what it wants, end.
func (c *caller) stay(otherwise error) {
	if !c.stays {
		c.end(store.Job{}, otherwise)
		return
	}
	for _, q := range c.queues {
		q.hear()
	}
}

// relieved tells the caller that Redis answers.
func (c *caller) relieved() {
	c.trouble, c.since = nil, time.Time{}
}

// failed tells the caller that a pop or a look for it has failed. One that stays
// bears what may pass for a while.
func (c *caller) failed(err error) {
	now := time.Now()
	c.asks = 0
	if c.since.IsZero() {
		c.since = now
	}
	c.trouble = err
	if errors.Is(err, ErrLost) {
		c.lost = err
	}
	if !store.Temporary(err) || now.Sub(c.since) >= rideOut {
		c.end(store.Job{}, err)
	} else {
		c.stay(err)
	}
}

// waiting reports whether a pop is called for.
func (q *topicQueue) waiting() bool {
	return slices.ContainsFunc(q.asking, (*caller).isFree) || q.ready > 0 && len(q.claimable(1)) > 0
}

// isFree reports whether no pop is under way for a caller that wants a job. One
// that is claimed asks again when it is released.
func (c *caller) isFree() bool { return c.places != nil && !c.claimed }

// claimable are the first callers for whom no pop is under way, up to n.
func (q *topicQueue) claimable(n int) []*caller {
	var callers []*caller
	for e := q.callers.Front(); e != nil && len(callers) < n; e = e.Next() {
		if c := e.Value.(*caller); c.isFree() {
			callers = append(callers, c)
		}
	}
	return callers
}

// next claims the first callers: as many as jobs are believed to be there, or,
// if somebody asks, as many as one pop can serve.
func (q *topicQueue) next() (int, func(*store.Pipeline, error)) {
	var asking, claimed []*caller
	for _, c := range q.asking {
		switch {
		case c.isFree():
			asking = append(asking, c)
		case c.claimed:
			claimed = append(claimed, c)
		}
	}
	q.asking = claimed
	n := min(q.ready, store.MaxPop)
	if len(asking) > 0 {
		n = store.MaxPop
	}
	callers, heard := claim(q.claimable(n)), q.heard
	callers.take()
	return len(callers), func(p *store.Pipeline, err error) {
		popped, err := q.client.pop(p, err, []string{q.topic}, len(callers))
		q.mu.Lock()
		defer q.mu.Unlock()
		q.learn(popped, err, len(callers), heard)
		// Whoever asked knows now that the queue is empty, though the pop
		// may have been for those ahead of it.
		full := err == nil && (popped.More || len(popped.Jobs) == len(callers))
		callers.release(popped, err)
		for _, c := range asking {
			switch {
			case c.places == nil:
			case full:
				q.asking = append(q.asking, c)
			case err == nil:
				c.isEmpty()
			case c.asks > 0: // it was not among those whom the pop was for
				c.failed(err)
			}
		}
	}
}

// learn enters what a pop for so many callers tells about the queue. What was heard
// since it was sent is newer.
func (q *topicQueue) learn(popped store.Popped, err error, callers, heard int) {
	switch {
	case len(popped.Jobs) > 0:
		q.rivals /= 2
	case err == nil && q.ready > 0: // it was told that there are jobs
		q.rivals = min(q.rivals+1, maxRivals)
	}
	switch {
	case err == nil && popped.More:
		q.ready = max(q.ready, 1)
	case q.heard != heard && !q.delayed:
	case err == nil && len(popped.Jobs) == callers:
		q.ready = max(q.ready-callers, 0)
	default:
		q.ready = 0
	}
}

// tell enters that the queue has jobs, so many.
func (q *topicQueue) tell(jobs int) {
	q.heard++
	if q.delayed {
		q.pending = jobs
		return
	}
	// There is enough for all rivals, or there are none.
	if jobs > q.rivals || q.callers.Len() == 0 {
		q.ready = jobs
		q.wake()
		return
	}
	q.delayed, q.pending = true, jobs
	time.AfterFunc(rand.N(time.Duration(q.rivals)*rivalDelay), func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.delayed, q.ready = false, q.pending
		q.wake()
	})
}

// claim is the callers that one pop is made for.
type claim []*caller

// take makes the callers stay until release.
func (cl claim) take() {
	for _, c := range cl {
		c.claimed = true
	}
}

// release hands out what the pop has brought, in the callers' order.
func (cl claim) release(popped store.Popped, err error) {
	for i, c := range cl {
		c.claimed = false
		switch {
		case i < len(popped.Jobs):
			c.end(popped.Jobs[i], nil)
		case c.leaving == ErrEmpty && err != nil:
			c.end(store.Job{}, err)
		case c.leaving != nil && errors.Is(err, ErrLost):
			c.end(store.Job{}, fmt.Errorf("%w; %w", c.leaving, err))
		case c.leaving != nil:
			c.end(store.Job{}, c.leaving)
		case err != nil:
			c.failed(err)
		}
	}
	// Those who still wait may have missed jobs of their other topics meanwhile.
	for _, c := range cl {
		if c.places != nil && len(c.queues) > 1 {
			for _, q := range c.queues {
				q.wake()
			}
		}
	}
}

// popOfSeveral looks at all of a caller's topics at once, in its order.
func (ts *topics) popOfSeveral(ctx context.Context, c *caller, names []string) {
	for again := true; again; {
		p, err := ts.client.partitions[0].store.Pipeline(ctx)
		if err != nil && ctx.Err() != nil {
			return
		}
		again = ts.popFor(c, p, err, names)
		if err == nil {
			p.Close()
		}
	}
}

// popFor reports whether the pop has to be repeated.
func (ts *topics) popFor(c *caller, p *store.Pipeline, err error, names []string) (again bool) {
	ts.mu.Lock()
	if !c.isFree() {
		if c.claimed { // by others who pop from one of its topics
			c.askAll()
		}
		ts.mu.Unlock()
		return false
	}
	c.claimed = true
	ts.mu.Unlock()
	popped, err := ts.client.pop(p, err, names, 1)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if err == nil && len(popped.Jobs) == 0 && !popped.More && c.leaving == nil {
		c.isEmpty()
	}
	claim{c}.release(popped, err)
	return err == nil && popped.More && c.places != nil
}
