package client

import (
	"context"
	"slices"
	"sync"

	"github.com/mix-basic/delayer/internal/store"
)

// maxPushCalls is how many calls that store jobs are under way at a time.
const maxPushCalls = 3

// pushes are the Push calls of a partition.
type pushes struct {
	coalescer
	mu       sync.Mutex
	gathered []*push
	ids      map[string]bool // of the call that is being put together
}

// push is one Push call. Its caller gets exactly its own error.
type push struct {
	job  store.Delayed
	done chan error // holds one
	gone bool       // its caller left; guarded by pushes.mu
}

func newPushes(c *Client, s *store.Store) *pushes {
	p := &pushes{ids: map[string]bool{}}
	p.coalescer = coalescer{client: c, store: s, mu: &p.mu, queue: p, most: maxPushCalls}
	return p
}

// push returns when the job is stored, or with ctx's error when that ends
// before: then it is not stored if it was not yet sent.
func (p *pushes) push(ctx context.Context, job store.Delayed) error {
	mine := &push{job: job, done: make(chan error, 1)}
	p.mu.Lock()
	p.gathered = append(p.gathered, mine)
	leads := ctx.Done() == nil && p.mayLead() // who leads can't leave before the answer
	if !leads {
		p.wake()
	}
	p.mu.Unlock()
	if leads {
		p.lead(p.client.abandoned)
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

func (p *pushes) waiting() bool { return len(p.gathered) > 0 }

func (p *pushes) idle() {}

// next takes off the next pushes that may go together: no ID is among them
// twice, as the later of the two comes after the earlier.
func (p *pushes) next() (int, func(*store.Pipeline, error)) {
	var batch []*push
	n, bytes := 0, 0
	clear(p.ids)
	for _, w := range p.gathered {
		if !w.gone {
			bytes += len(w.job.Body)
			if len(batch) > 0 && (len(batch) == maxJobs || bytes > maxBytes || p.ids[w.job.ID]) {
				break
			}
			batch = append(batch, w)
			p.ids[w.job.ID] = true
		}
		n++
	}
	p.gathered = slices.Delete(p.gathered, 0, n)
	return len(batch), func(p *store.Pipeline, err error) { storeAll(p, err, batch) }
}

// storeAll stores the jobs and tells the callers.
func storeAll(p *store.Pipeline, err error, batch []*push) {
	var errs []error
	if err == nil {
		jobs := make([]store.Delayed, len(batch))
		for i, w := range batch {
			jobs[i] = w.job
		}
		p.WithoutCancel()
		errs, err = p.Push(jobs, false)
	}
	for i, w := range batch {
		if err == nil {
			w.done <- errs[i]
		} else {
			w.done <- err
		}
	}
}
