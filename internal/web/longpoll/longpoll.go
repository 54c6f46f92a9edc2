// Package longpoll lets HTTP requests wait for jobs.
//
// Its main type is Poller. Invariants: nothing is taken from Redis while a request waits, and no job is handed
// to a request whose client is known to be gone; what cannot be delivered is released at once, in order, without
// counting an attempt.
//
// Rejected: waiting only. Redis is polled once before, so that a request gets a job that is ready however
// short its wait is, and however many other requests wait.
package longpoll

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/web"
)

// Poller reserves jobs for requests.
type Poller struct {
	client *client.Client
	failed func(error)
	answer time.Duration // answerWait, but for tests
}

// New returns a Poller for the client's jobs. failed is called when undelivered jobs could not be released;
// they are redelivered when their leases end.
func New(c *client.Client, failed func(error)) *Poller {
	return &Poller{client: c, failed: failed, answer: answerWait}
}

const (
	// answerWait is how long Redis may take for the first poll, and for the last one when a wait is over.
	answerWait = 10 * time.Second
	// releaseWait bounds the release of undelivered jobs.
	releaseWait = 10 * time.Second
)

// Reserve waits up to upTo (0: not at all) for jobs of the topics with the options o. It returns no jobs and
// no error if none came in time, the server stops or the client disconnected. Read the request's body first.
func (p *Poller) Reserve(w http.ResponseWriter, r *http.Request, topics []string, o client.FetchOptions, upTo time.Duration) (jobs []*client.Delivery, err error) {
	for _, topic := range topics {
		o.Topics = append(o.Topics, client.FetchTopic{Topic: topic})
	}
	end := time.Now().Add(upTo)
	jobs, err = p.poll(r, o)
	if err != nil && time.Now().Before(end) {
		waited := web.Wait(w, r, upTo+p.answer, func(ctx context.Context) (err error) {
			o.Timeout = max(time.Until(end), time.Millisecond) // 0 would mean no timeout
			jobs, err = p.client.Fetch(ctx, o)
			return err
		})
		if waited != web.ErrCrowded || errors.Is(err, client.ErrEmpty) { // otherwise it is unknown whether there is a job
			err = waited
		}
	}
	if len(jobs) > 0 && web.Gone(r) {
		p.Release(jobs)
		jobs = nil
	}
	// There is no job, or nobody to receive one: the server stops, or the client disconnected.
	if errors.Is(err, client.ErrEmpty) || errors.Is(err, client.ErrClosed) || errors.Is(err, context.Canceled) {
		err = nil
	}
	return jobs, err
}

// poll reserves jobs that are ready now.
func (p *Poller) poll(r *http.Request, o client.FetchOptions) ([]*client.Delivery, error) {
	ctx, cancel := web.Brief(r.Context(), p.answer)
	defer cancel()
	o.NoWait = true
	return p.client.Fetch(ctx, o)
}

// Release makes jobs whose answer could not be written ready again, in their order.
func (p *Poller) Release(jobs []*client.Delivery) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseWait)
	defer cancel()
	for _, d := range slices.Backward(jobs) { // each becomes the first of its topic
		if err := d.Release(ctx, 0); err != nil && !errors.Is(err, client.ErrLeaseLost) {
			p.failed(err)
		}
	}
}
