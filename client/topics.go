package client

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
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

// errNoAnswer is a timeout that ran out before Redis said whether there is a job.
var errNoAnswer = errors.New("redis did not answer within the timeout")

// take gets as many jobs as are wanted and there, those of the first topic first. If there is
// none it waits for one, or, if the caller does not stay, fails with ErrEmpty.
func (ts *topics) take(ctx context.Context, r request) (taken, error) {
	whole := ctx
	ctx, cancel := r.bound(ctx)
	defer cancel()
	answers := make(chan answer, 1)
	c := &caller{request: r, trouble: errNoAnswer, answer: func(a answer) { answers <- a }}
	ask, err := ts.join(c)
	if err != nil {
		return taken{}, err
	}
	if ask != nil {
		ask(ctx)
	}
	select {
	case a := <-answers:
		return a.taken, a.err
	case <-ctx.Done():
		ts.leave(c, cmp.Or(whole.Err(), ErrEmpty))
	}
	a := <-answers
	return a.taken, a.err
}

// takeFunc is take without a goroutine that waits: f is called, in one of its own, with what take
// would have returned.
func (ts *topics) takeFunc(ctx context.Context, r request, f func(taken, error)) {
	whole := ctx
	ctx, cancel := r.bound(ctx)
	if r.timeout == 0 {
		ctx, cancel = context.WithCancel(ctx) // which ends the asking, too
	}
	stays, joined := func() bool { return true }, make(chan struct{})
	c := &caller{request: r, trouble: errNoAnswer}
	c.answer = func(a answer) {
		go func() {
			<-joined
			stays()
			cancel()
			f(a.taken, a.err)
		}()
	}
	ask, err := ts.join(c)
	if err != nil {
		c.answer(answer{err: err})
	} else {
		stays = context.AfterFunc(ctx, func() { ts.leave(c, cmp.Or(whole.Err(), ErrEmpty)) })
	}
	if ask != nil {
		ts.client.running.Add(1)
		go func() {
			defer ts.client.running.Done()
			ask(ctx)
		}()
	}
	close(joined)
}

// join puts the caller behind those who want a job of the same topics. If it returns a func,
// the caller has to call that, which asks Redis for it; else others ask.
func (ts *topics) join(c *caller) (ask func(context.Context), err error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.closed {
		return nil, ErrClosed
	}
	first := true
	for _, partition := range ts.client.partitions {
		for i, name := range c.names {
			q := ts.queue(topicKey{partition, name}, c.kindOf(i))
			if c.at(q) != nil {
				continue
			}
			first = first && !q.isWaitedFor()
			c.places = append(c.places, place{queue: q, element: q.callers.PushBack(c), most: c.limit(i)})
		}
	}
	q := c.places[0].queue
	switch {
	case len(c.places) > 1 && first && len(ts.client.partitions) == 1:
		c.setAsks(true)
		takes := ts.client.partitions[0].takes
		return takes.addOwn(&several{caller: c, takes: takes}), nil
	case len(c.places) == 1 && !q.busy:
		c.setAsks(true)
		q.asking, q.busy = append(q.asking, c), true
		return q.partition.takes.addOwn(q), nil
	}
	c.askAll()
	return nil, nil
}

func (ts *topics) queue(key topicKey, k kind) *topicQueue {
	for _, q := range ts.queues[key] {
		if q.kind == k {
			return q
		}
	}
	q := &topicQueue{topics: ts, topicKey: key, kind: k}
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

// several is a caller who looks at all of its topics at once, in its order: as many as are alike, and
// then, if there is no job, at the next ones.
type several struct {
	*caller
	takes *takes
	next  int // of the names
}

func (s *several) waiting() bool { return s.places != nil }

func (s *several) rest() {}

func (s *several) ask() *take {
	switch {
	case s.claimed: // by others who pop from one of its topics
		s.askAll()
		return nil
	case !s.isFree():
		return nil
	}
	claim{s.caller}.hold()
	end := s.alike(s.next)
	limits := make([]int, end-s.next)
	for i := range limits {
		limits[i] = s.limit(s.next + i)
	}
	return &take{kind: s.kindOf(s.next), topics: s.names[s.next:end], limits: limits, n: s.n, callers: 1,
		end: func(got taken, more bool, err error) { s.endTake(end, got, more, err) }}
}

func (s *several) endTake(end int, got taken, more bool, err error) {
	isEmpty := err == nil && len(got.jobs) == 0 && !more
	isLast := end == len(s.names)
	if isEmpty && isLast && s.leaving == nil {
		s.areEmpty()
	}
	claim{s.caller}.release(got, err, nil)
	if s.places != nil && (isEmpty && !isLast || err == nil && more) {
		if isEmpty {
			s.next = end
		}
		s.takes.addAgain(s)
	}
}
