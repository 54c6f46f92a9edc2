// Package longpoll has requests of the HTTP front wait for jobs: thousands of them, at little cost.
package longpoll

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/web"
)

// Poller reserves jobs for requests.
type Poller struct {
	client *client.Client
	failed func(error)
	asking atomic.Int32 // requests that ask whether a job is ready
}

// New makes a Poller of the client's jobs. failed is told why jobs that nobody got could not be given
// back; they come back when their leases end.
func New(c *client.Client, failed func(error)) *Poller { return &Poller{client: c, failed: failed} }

// Answer answers a request with the jobs that are reserved for it. Without any, err is nil if there
// was none in time, or the front stops. If it fails, the jobs are given back.
type Answer func(w http.ResponseWriter, r *http.Request, jobs []*client.Delivery, err error) error

const (
	// answerWait is how long Redis may take for the last look when a wait is over, and for the only one
	// where there is no wait.
	answerWait = 10 * time.Second
	// askWait is how long a request that waits asks at most whether a job is ready before it is detached.
	askWait = time.Second
	// maxAsking is how many requests do that at a time. It spares them much if there is a job; but while
	// they ask they hold as much memory as any.
	maxAsking = 128
	// releaseWait bounds how long jobs are given back that nobody gets.
	releaseWait = 10 * time.Second
)

// Reserve waits for jobs as o says, apart from its Timeout: up to wait, 0 is not at all. Then, after
// Reserve has returned perhaps, the request is answered. Its body must have been read.
func (p *Poller) Reserve(w http.ResponseWriter, r *http.Request, o client.FetchOptions, wait time.Duration, answer Answer) {
	began := time.Now()
	var jobs []*client.Delivery
	var err error
	asked := true
	if wait == 0 {
		jobs, err = p.ready(r, o, answerWait)
	} else {
		jobs, asked = p.readyIfFew(r, o)
	}
	left := wait - time.Since(began)
	switch {
	case len(jobs) > 0 && web.HungUp(r): // perhaps: who is detached can be asked
		web.Detach(w, r, func(w http.ResponseWriter, r *http.Request, reply func(func())) {
			reply(func() { p.deliver(w, r, jobs, nil, answer) })
		})
		return
	case len(jobs) > 0 || asked && left <= 0:
		p.give(w, r, jobs, err, answer)
		return
	}
	o.Timeout = max(left, time.Millisecond)
	web.Detach(w, r, func(w http.ResponseWriter, r *http.Request, reply func(func())) {
		ctx, cancel := web.Poll(w, r, o.Timeout+answerWait)
		p.client.FetchFunc(ctx, o, func(jobs []*client.Delivery, err error) {
			reply(func() {
				err := unlessNone(ctx, err)
				cancel()
				p.deliver(w, r, jobs, err, answer)
			})
		})
	})
}

// deliver answers a request that is detached, unless nobody is there any more.
func (p *Poller) deliver(w http.ResponseWriter, r *http.Request, jobs []*client.Delivery, err error, answer Answer) {
	if web.HungUp(r) {
		p.giveBack(jobs)
		return
	}
	p.give(w, r, jobs, err, answer)
}

func (p *Poller) give(w http.ResponseWriter, r *http.Request, jobs []*client.Delivery, err error, answer Answer) {
	if answer(w, r, jobs, err) != nil {
		p.giveBack(jobs)
	}
}

// giveBack makes jobs ready that were reserved for nobody, in their order.
func (p *Poller) giveBack(jobs []*client.Delivery) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseWait)
	defer cancel()
	for _, d := range slices.Backward(jobs) { // each becomes its topic's next
		if err := d.Release(ctx); err != nil && !errors.Is(err, client.ErrLeaseLost) {
			p.failed(err)
		}
	}
}

// readyIfFew reserves what is there, unless too many ask for that. asked reports whether Redis has
// answered; if it has not, the wait will tell why.
func (p *Poller) readyIfFew(r *http.Request, o client.FetchOptions) (jobs []*client.Delivery, asked bool) {
	defer p.asking.Add(-1)
	if p.asking.Add(1) > maxAsking {
		return nil, false
	}
	jobs, err := p.ready(r, o, askWait)
	return jobs, err == nil
}

// ready reserves what is there. Redis may take so long at most.
func (p *Poller) ready(r *http.Request, o client.FetchOptions, most time.Duration) ([]*client.Delivery, error) {
	ctx, cancel := web.Brief(r, most)
	defer cancel()
	o.NoWait = true
	jobs, err := p.client.Fetch(ctx, o)
	return jobs, unlessNone(ctx, err)
}

// unlessNone is nil if there is no job, or if the front stops, and the client with it.
func unlessNone(ctx context.Context, err error) error {
	stops := errors.Is(err, client.ErrClosed) || errors.Is(err, context.Canceled) && context.Cause(ctx) == web.ErrStopping
	if stops || errors.Is(err, client.ErrEmpty) {
		return nil
	}
	return err
}
