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
	// answerWait is how long Redis may take for the last look when a wait is over.
	answerWait = 10 * time.Second
	// maxAsking is how many requests ask whether a job is ready before they are detached. That spares
	// them much if there is one; but while they ask they hold as much memory as any.
	maxAsking = 128
)

// Reserve waits for jobs as o says, apart from its Timeout: up to wait, 0 is not at all. Then, after
// Reserve has returned perhaps, the request is answered. Its body must have been read.
func (p *Poller) Reserve(w http.ResponseWriter, r *http.Request, o client.FetchOptions, wait time.Duration, answer Answer) {
	if wait == 0 {
		jobs, err := p.ready(r.Context(), o)
		answer(w, r, jobs, unlessEmpty(err))
		return
	}
	if p.mayAsk() {
		jobs, err := p.ready(r.Context(), o)
		p.asking.Add(-1)
		if err == nil {
			answer(w, r, jobs, nil)
			return
		} // what is wrong the wait will tell
	}
	o.Timeout = wait
	web.Detach(w, r, func(w http.ResponseWriter, r *http.Request, reply func(func())) {
		ctx, cancel := web.Poll(w, r, wait+answerWait)
		p.client.FetchFunc(ctx, o, func(jobs []*client.Delivery, err error) {
			reply(func() {
				stops := context.Cause(ctx) == web.ErrStopping
				cancel()
				if err = unlessEmpty(err); stops && errors.Is(err, context.Canceled) {
					err = nil
				}
				answer(w, r, jobs, err)
			})
		})
	})
}

func (p *Poller) mayAsk() bool {
	if p.asking.Add(1) <= maxAsking {
		return true
	}
	p.asking.Add(-1)
	return false
}

// ready reserves what is there.
func (p *Poller) ready(ctx context.Context, o client.FetchOptions) ([]*client.Delivery, error) {
	o.NoWait = true
	return p.client.Fetch(ctx, o)
}

func unlessEmpty(err error) error {
	if errors.Is(err, client.ErrEmpty) {
		return nil
	}
	return err
}
