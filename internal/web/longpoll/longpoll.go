// Package longpoll has requests of the HTTP front wait for jobs: thousands of them, at little cost.
package longpoll

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/web"
)

// Poller reserves jobs for requests.
type Poller struct {
	client *client.Client
	asking atomic.Int32 // requests that ask whether a job is ready
}

// New makes a Poller of the client's jobs.
func New(c *client.Client) *Poller { return &Poller{client: c} }

// Answer answers a request with the jobs that are reserved for it. Without any, err is nil if there
// was none in time, or the front stops. It may be that nobody is there to be answered.
type Answer func(w http.ResponseWriter, r *http.Request, jobs []*client.Delivery, err error)

const (
	// answerWait is how long Redis may take for the last look when a wait is over, and for the only one
	// where there is no wait.
	answerWait = 10 * time.Second
	// askWait is how long a request that waits asks at most whether a job is ready before it is detached.
	askWait = time.Second
	// maxAsking is how many requests do that at a time. It spares them much if there is a job; but while
	// they ask they hold as much memory as any.
	maxAsking = 128
)

// Reserve waits for jobs as o says, apart from its Timeout: up to wait, 0 is not at all. Then, after
// Reserve has returned perhaps, the request is answered. Its body must have been read.
func (p *Poller) Reserve(w http.ResponseWriter, r *http.Request, o client.FetchOptions, wait time.Duration, answer Answer) {
	if wait == 0 {
		jobs, err := p.ready(w, r, o, answerWait)
		answer(w, r, jobs, err)
		return
	}
	began := time.Now()
	jobs, asked := p.readyIfFew(w, r, o)
	left := wait - time.Since(began)
	if len(jobs) > 0 || asked && left <= 0 {
		answer(w, r, jobs, nil)
		return
	}
	o.Timeout = max(left, time.Millisecond)
	web.Detach(w, r, func(w http.ResponseWriter, r *http.Request, reply func(func())) {
		ctx, cancel := web.Poll(w, r, o.Timeout+answerWait)
		p.client.FetchFunc(ctx, o, func(jobs []*client.Delivery, err error) {
			reply(func() {
				err := unlessNone(ctx, err)
				cancel()
				answer(w, r, jobs, err)
			})
		})
	})
}

// readyIfFew reserves what is there, unless too many ask for that. asked reports whether Redis has
// answered; if it has not, the wait will tell why.
func (p *Poller) readyIfFew(w http.ResponseWriter, r *http.Request, o client.FetchOptions) (jobs []*client.Delivery, asked bool) {
	defer p.asking.Add(-1)
	if p.asking.Add(1) > maxAsking {
		return nil, false
	}
	jobs, err := p.ready(w, r, o, askWait)
	return jobs, err == nil
}

// ready reserves what is there. Redis may take so long at most.
func (p *Poller) ready(w http.ResponseWriter, r *http.Request, o client.FetchOptions, most time.Duration) ([]*client.Delivery, error) {
	ctx, cancel := web.Poll(w, r, most)
	defer cancel()
	o.NoWait = true
	jobs, err := p.client.Fetch(ctx, o)
	return jobs, unlessNone(ctx, err)
}

// unlessNone is nil if there is no job, or if the front stops.
func unlessNone(ctx context.Context, err error) error {
	if errors.Is(err, client.ErrEmpty) || errors.Is(err, context.Canceled) && context.Cause(ctx) == web.ErrStopping {
		return nil
	}
	return err
}
