package client

import (
	"context"
	"runtime"
	"sync"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// maxFlights is how many script calls of one kind are under way at a time;
	// what comes meanwhile gathers and goes together in the next.
	maxFlights = 3
	// maxJobs and maxBytes bound what one script call stores or takes, so that
	// it does not keep Redis from others.
	maxJobs  = 250
	maxBytes = 1 << 20
)

// fly runs flights until next has none left. If inline, the first is run before fly
// returns, which spares a goroutine where nobody could want to leave earlier.
func (c *Client) fly(inline bool, next func() (flight func())) {
	flight := func() {}
	if inline {
		if flight = next(); flight != nil {
			flight()
			flight = next()
		}
	}
	if flight == nil {
		c.running.Done()
		return
	}
	c.start(func() {
		defer c.running.Done()
		for ; flight != nil; flight = next() {
			flight()
		}
	})
}

// maxIdle is how many goroutines of a Client stay for the next flights.
const maxIdle = 8

// start runs f on a goroutine that is idle, or on a new one, so that calls whose
// context can end don't start one each.
func (c *Client) start(f func()) {
	select {
	case c.idle <- f:
	default:
		go c.work(f)
	}
}

func (c *Client) work(f func()) {
	for {
		f()
		if c.idling.Add(1) > maxIdle {
			c.idling.Add(-1)
			return
		}
		select {
		case f = <-c.idle:
			c.idling.Add(-1)
		case <-c.closing.Done():
			return
		}
	}
}

// pushes sends the pushes that come while others are under way together. When
// none is, a push goes at once.
type pushes struct {
	client *Client

	mu      sync.Mutex
	waiting []*pushing
	flights int
	ids     map[string]bool // of the flight that is being put together
}

// pushing is one push. Its caller gets exactly its own error.
type pushing struct {
	job   store.Delayed
	terms store.Terms
	done  chan error // holds one
	gone  bool       // the caller left before it was sent; guarded by pushes.mu
}

// push returns when the job is stored, or with ctx's error when that ends before:
// then it is not stored if it was not yet sent.
func (p *pushes) push(ctx context.Context, job store.Delayed, terms store.Terms) error {
	mine := &pushing{job: job, terms: terms, done: make(chan error, 1)}
	p.mu.Lock()
	p.waiting = append(p.waiting, mine)
	free := p.flights < maxFlights
	if free {
		p.flights++
		p.client.running.Add(1)
	}
	p.mu.Unlock()
	if free {
		p.client.fly(ctx.Done() == nil, p.next)
	}
	select {
	case err := <-mine.done:
		return err
	case <-ctx.Done():
		p.mu.Lock()
		mine.gone = true
		p.mu.Unlock()
		return ctx.Err()
	}
}

// next takes off the next pushes that may go together; with none, the flights are over.
func (p *pushes) next() (flight func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var batch []*pushing
	n, bytes := 0, 0
	clear(p.ids)
	for _, w := range p.waiting {
		if !w.gone {
			bytes += len(w.job.Body)
			if len(batch) > 0 && (w.terms != batch[0].terms || len(batch) == maxJobs || bytes > maxBytes || p.ids[w.job.ID]) {
				break
			}
			batch = append(batch, w)
			p.ids[w.job.ID] = true
		}
		n++
	}
	if p.waiting = p.waiting[n:]; len(p.waiting) == 0 {
		p.waiting = nil
	}
	if batch == nil {
		p.flights--
		return nil
	}
	return func() { p.send(batch) }
}

// send stores the batch and tells the callers.
func (p *pushes) send(batch []*pushing) {
	jobs := make([]store.Delayed, len(batch))
	for i, w := range batch {
		jobs[i] = w.job
	}
	errs, err := p.client.store.PushBatch(context.Background(), jobs, batch[0].terms)
	for i, w := range batch {
		if err == nil {
			w.done <- errs[i]
		} else {
			w.done <- err
		}
	}
	yield(len(batch))
}

// yield lets the callers of a flight that has landed run first: those who call
// again at once go with the next then, and not with one of their own after it.
func yield(callers int) {
	if callers > 1 {
		runtime.Gosched()
	}
}

// takes are the callers who want a job of a topic now, by topic. Those who come
// while a take is under way are served together by the next.
type takes struct {
	client *Client

	mu     sync.Mutex
	topics map[string]*taking
}

type taking struct {
	callers []*caller
	flights int
}

// join has the caller offered the next job of the topic, or ErrEmpty. If inline,
// that is done by the time it returns, unless others are ahead.
func (t *takes) join(c *caller, topic string, inline bool) {
	t.mu.Lock()
	if t.topics == nil {
		t.topics = map[string]*taking{}
	}
	q := t.topics[topic]
	if q == nil {
		q = &taking{}
		t.topics[topic] = q
	}
	q.callers = append(q.callers, c)
	free := q.flights < maxFlights
	if free {
		q.flights++
		t.client.running.Add(1)
	}
	t.mu.Unlock()
	if free {
		t.client.fly(inline, func() func() { return t.next(topic) })
	}
}

// next takes off the callers who are still there; with none, the flights are over.
func (t *takes) next(topic string) (flight func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.topics[topic]
	var callers []*caller
	n := 0
	for _, c := range q.callers {
		if len(callers) == maxJobs {
			break
		}
		if !c.isSettled() {
			callers = append(callers, c)
		}
		n++
	}
	q.callers = q.callers[n:]
	if callers == nil {
		if q.flights--; q.flights == 0 {
			delete(t.topics, topic)
		}
		return nil
	}
	return func() { t.send(topic, callers) }
}

// send takes a job for each of the callers and hands them out.
func (t *takes) send(topic string, callers []*caller) {
	left, err := t.client.serve(topic, callers)
	for _, c := range left {
		c.offer(store.Taken{}, err)
	}
	yield(len(callers))
}

// serve takes as many jobs as there are callers and hands them out in this
// order. It returns the callers who got none, and why.
func (c *Client) serve(topic string, callers []*caller) (left []*caller, err error) {
	batch, ghosts, err := c.store.TakeBatch(c.abandoned, []string{topic}, len(callers))
	c.met(ghosts)
	for len(batch) > 0 && len(callers) > 0 {
		if callers[0].offer(batch[0], nil) {
			batch = batch[1:]
		}
		callers = callers[1:]
	}
	c.restoreAll(batch)
	if err == nil {
		err = ErrEmpty
	}
	return callers, err
}

// isSettled reports whether the caller has a job, or has gone.
func (c *caller) isSettled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.settled
}
