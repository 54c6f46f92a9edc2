package client

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// topics are the topics that Pop, BPop and Reserve are called for, and their callers.
//
// Nothing is taken out of Redis before somebody is there to get it, and nothing
// is ever put back. A caller is claimed by one pop, or reserve, at a time. From then until its
// answer, which the connection's timeouts bound, the caller stays and gets what
// the pop has brought. While it is not claimed it can leave at once.
type topics struct {
	client *Client

	mu     sync.Mutex
	queues map[topicKey][]*topicQueue // one for each kind
	closed bool
}

type topicKey struct {
	partition *partition
	topic     string
}

// kind is how jobs are taken: the zero kind is a pop.
type kind struct {
	reserves bool
	store.Reservation
}

// request is what a caller wants: n jobs at most, and limits[i] at most of names[i]; with
// no limits, n of each.
type request struct {
	kind
	names   []string
	limits  []int
	n       int
	stays   bool          // and waits when there is none
	timeout time.Duration // 0 is none
}

// taken is what came of a request: leases, and when they were asked for, only if it reserves.
type taken struct {
	jobs   []store.Job
	leases []store.Lease
	asked  time.Time
}

// add appends what came later. When that was asked for counts as when the first was.
func (t *taken) add(next taken) {
	if len(t.jobs) == 0 {
		*t = next
		return
	}
	t.jobs, t.leases = append(t.jobs, next.jobs...), append(t.leases, next.leases...)
}

// cut takes the first jobs off, n at most.
func (t *taken) cut(n int) taken {
	n = min(n, len(t.jobs))
	first := taken{jobs: t.jobs[:n:n], asked: t.asked}
	t.jobs = t.jobs[n:]
	if t.leases != nil {
		first.leases, t.leases = t.leases[:n:n], t.leases[n:]
	}
	return first
}

// topicQueue is a ready queue that has callers, or had some lately, who take jobs in one way.
type topicQueue struct {
	coalescer // of one pop at a time, so that callers are served in their order
	topicKey
	kind
	callers list.List // of *caller, in the order in which they came
	asking  []*caller // those who want to know whether there is a job now
	ready   int       // how many jobs are believed to be there
	heard   int       // counts what made us believe so
	hearing           // of new ones
	rivals  int       // about how many other Clients hear the same and are faster
	delayed bool      // a pop will be made soon
	pending int       // for that many jobs
}

// caller is somebody who wants a job, or several.
type caller struct {
	request
	queues  []*topicQueue   // where it may come from
	most    []int           // and how many from each of these
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
	taken
	err error
}

// errNoAnswer is a timeout that ran out before Redis said whether there is a job.
var errNoAnswer = errors.New("redis did not answer within the timeout")

// take gets a job of one of the topics, the first that has one, or as many as are wanted and
// there. If there is none it fails with ErrEmpty, or, if the caller stays, waits for one.
func (ts *topics) take(ctx context.Context, r request) (taken, error) {
	whole := ctx
	if r.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.timeout)
		defer cancel()
	}
	c := &caller{request: r, trouble: errNoAnswer, answer: make(chan answer, 1)}
	ask, err := ts.join(c)
	if err != nil {
		return taken{}, err
	}
	if ask != nil {
		ask(ctx)
	}
	select {
	case a := <-c.answer:
		return a.taken, a.err
	case <-ctx.Done():
		ts.leave(c, cmp.Or(whole.Err(), ErrEmpty))
	}
	a := <-c.answer
	return a.taken, a.err
}

// join puts the caller behind those who want a job of the same topics. If it comes
// back with a func, the caller has to ask for itself.
func (ts *topics) join(c *caller) (ask func(context.Context), err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.closed {
		return nil, ErrClosed
	}
	first := true
	for _, partition := range ts.client.partitions {
		for i, name := range c.names {
			q := ts.queue(topicKey{partition, name}, c.kind)
			if slices.Contains(c.queues, q) {
				continue
			}
			first = first && !q.isWaitedFor()
			c.queues, c.places = append(c.queues, q), append(c.places, q.callers.PushBack(c))
			c.most = append(c.most, c.limit(i))
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
		return func(ctx context.Context) { ts.popOfSeveral(ctx, c) }, nil
	}
	c.askAll()
	return nil, nil
}

// limit is how many jobs of names[i] are wanted at most.
func (r *request) limit(i int) int {
	if r.limits == nil {
		return r.n
	}
	return min(r.limits[i], r.n)
}

// wants is how many jobs of the queue the caller wants at most.
func (c *caller) wants(q *topicQueue) int { return c.most[slices.Index(c.queues, q)] }

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

func (ts *topics) queue(key topicKey, k kind) *topicQueue {
	for _, q := range ts.queues[key] {
		if q.kind == k {
			return q
		}
	}
	q := &topicQueue{topicKey: key, kind: k}
	q.coalescer = coalescer{client: ts.client, store: key.partition.store, mu: &ts.mu, queue: q, most: 1}
	ts.queues[key] = append(ts.queues[key], q)
	return q
}

// all are the queues that there are.
func (ts *topics) all() []*topicQueue {
	return slices.Concat(slices.Collect(maps.Values(ts.queues))...)
}

// leave ends the caller's wait: at once, or with the answer of the pop that is
// under way for it.
func (ts *topics) leave(c *caller, why error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	c.end(taken{}, why)
}

// close ends all waits with ErrClosed.
func (ts *topics) close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.closed = true
	for _, q := range ts.all() {
		for e := q.callers.Front(); e != nil; {
			c := e.Value.(*caller)
			e = e.Next()
			c.end(taken{}, ErrClosed)
		}
	}
}

// end gives the caller its answer, unless it has one. While a pop is under way for
// it, that comes first.
func (c *caller) end(got taken, err error) {
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
	c.answer <- answer{got, err}
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
		c.end(taken{}, otherwise)
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
		c.end(taken{}, err)
	} else {
		c.stay(err)
	}
}

// waiting reports whether a pop is called for.
func (q *topicQueue) waiting() bool {
	return slices.ContainsFunc(q.asking, (*caller).isFree) || q.ready > 0 && q.hasFree()
}

// hasFree reports whether there is a caller for whom no pop is under way.
func (q *topicQueue) hasFree() bool {
	_, jobs := q.claimable(1)
	return jobs > 0
}

// isFree reports whether no pop is under way for a caller that wants a job. One
// that is claimed asks again when it is released.
func (c *caller) isFree() bool { return c.places != nil && !c.claimed }

// claimable are the first callers for whom no pop is under way, as many as n jobs are
// for, and how many jobs they want.
func (q *topicQueue) claimable(n int) (callers []*caller, jobs int) {
	for e := q.callers.Front(); e != nil && jobs < n; e = e.Next() {
		if c := e.Value.(*caller); c.isFree() {
			callers = append(callers, c)
			jobs += c.wants(q)
		}
	}
	return callers, jobs
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
	callers, jobs := q.claimable(n)
	jobs = min(jobs, store.MaxPop)
	heard := q.heard
	claim(callers).take()
	return len(callers), func(p *store.Pipeline, err error) {
		got, more, err := q.client.take(p, err, q.kind, []string{q.topic}, []int{jobs}, jobs)
		q.mu.Lock()
		defer q.mu.Unlock()
		q.learn(len(got.jobs), more, err, jobs, heard)
		// Whoever asked knows now that the queue is empty, though the pop
		// may have been for those ahead of it.
		full := err == nil && (more || len(got.jobs) == jobs)
		claim(callers).release(got, err, q)
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

// learn enters what a pop that asked for so many jobs tells about the queue. What was heard
// since it was sent is newer.
func (q *topicQueue) learn(got int, more bool, err error, asked, heard int) {
	switch {
	case got > 0:
		q.rivals /= 2
	case err == nil && q.ready > 0: // it was told that there are jobs
		q.rivals = min(q.rivals+1, maxRivals)
	}
	switch {
	case err == nil && more:
		q.ready = max(q.ready, 1)
	case q.heard != heard && !q.delayed:
	case err == nil && got == asked:
		q.ready = max(q.ready-asked, 0)
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

// release hands out what the pop of the queue has brought, in the callers' order; with no
// queue it was of all of theirs.
func (cl claim) release(got taken, err error, q *topicQueue) {
	for _, c := range cl {
		c.claimed = false
		switch {
		case len(got.jobs) > 0:
			n := c.n
			if q != nil {
				n = c.wants(q)
			}
			c.end(got.cut(n), nil)
		case c.leaving == ErrEmpty && err != nil:
			c.end(taken{}, err)
		case c.leaving != nil && errors.Is(err, ErrLost):
			c.end(taken{}, fmt.Errorf("%w; %w", c.leaving, err))
		case c.leaving != nil:
			c.end(taken{}, c.leaving)
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
func (ts *topics) popOfSeveral(ctx context.Context, c *caller) {
	for again := true; again; {
		p, err := ts.client.partitions[0].store.Pipeline(ctx)
		if err != nil && ctx.Err() != nil {
			return
		}
		again = ts.popFor(c, p, err)
		if err == nil {
			p.Close()
		}
	}
}

// popFor reports whether the pop has to be repeated.
func (ts *topics) popFor(c *caller, p *store.Pipeline, err error) (again bool) {
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
	limits := make([]int, len(c.names))
	for i := range limits {
		limits[i] = c.limit(i)
	}
	got, more, err := ts.client.take(p, err, c.kind, c.names, limits, c.n)
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if err == nil && len(got.jobs) == 0 && !more && c.leaving == nil {
		c.isEmpty()
	}
	claim{c}.release(got, err, nil)
	return err == nil && more && c.places != nil
}
