// Package longpoll has requests of the HTTP front wait for jobs.
package longpoll

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/wait"
	"github.com/mix-basic/delayer/internal/web"
)

// Poller reserves jobs for requests.
type Poller struct {
	client *client.Client
	failed func(error)
}

// New makes a Poller of the client's jobs. failed is told why jobs that nobody got could not be given
// back; they come back when their leases end.
func New(c *client.Client, failed func(error)) *Poller { return &Poller{client: c, failed: failed} }

const (
	// answerWait is how long Redis may take for the first look, and for the last when a wait is over.
	answerWait = 10 * time.Second
	// releaseWait bounds how long jobs are given back that nobody gets.
	releaseWait = 10 * time.Second
)

// Reserve waits for jobs of the topics, otherwise as o says, but up to upTo; 0 is not at all. There may be
// none without an error: in time, before the front stops, or while the client is there. The request's body
// must have been read.
func (p *Poller) Reserve(w http.ResponseWriter, r *http.Request, topics []string, o client.FetchOptions, upTo time.Duration) (jobs []*client.Delivery, err error) {
	for _, topic := range topics {
		o.Topics = append(o.Topics, client.FetchTopic{Topic: topic})
	}
	end := time.Now().Add(upTo)
	jobs, err = p.look(r, o)
	empty := errors.Is(err, client.ErrEmpty)
	if err != nil && time.Now().Before(end) {
		waited := web.Wait(w, r, upTo+answerWait, func(ctx context.Context) (err error) {
			o.Timeout = max(time.Until(end), time.Nanosecond) // none is for ever
			jobs, err = p.client.Fetch(ctx, o)
			return err
		})
		if waited != web.ErrCrowded || errors.Is(err, client.ErrEmpty) { // else nobody knows whether there is a job
			err = waited
		}
	}
	if empty && errors.Is(err, wait.ErrNoAnswer) { // the time ran out during a further poll: the first one counts
		err = nil
	}
	// There is no job, or nobody to get one: the front stops, and the client of Redis with it, or who has asked
	// is gone.
	if errors.Is(err, client.ErrEmpty) || errors.Is(err, client.ErrClosed) || errors.Is(err, context.Canceled) {
		err = nil
	}
	return jobs, err
}

// look reserves what is there, so that Redis is asked however short the wait is, and many may wait.
func (p *Poller) look(r *http.Request, o client.FetchOptions) ([]*client.Delivery, error) {
	ctx, cancel := web.Brief(r.Context(), answerWait)
	defer cancel()
	o.NoWait = true
	return p.client.Fetch(ctx, o)
}

// Deliver has answer write what the client gets of the jobs. They are given back if that fails, or the
// client has hung up.
func (p *Poller) Deliver(w http.ResponseWriter, r *http.Request, jobs []*client.Delivery, answer func() error) {
	if len(jobs) > 0 && web.HungUp(w, r) || answer() != nil {
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
