package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// tally counts the outcomes for each job.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (y *tally) add(id string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.counts == nil {
		y.counts = map[string]int{}
	}
	y.counts[id]++
}

func (y *tally) count(id string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.counts[id]
}

func (y *tally) total() int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return len(y.counts)
}

// consume pops in the background until the test ends or stop is called.
func (f *fixture) consume(popped *tally, pop func(ctx context.Context) (client.Message, error)) (stop func()) {
	return redistest.Background(f.TB, func(ctx context.Context) error {
		for {
			m, err := pop(ctx)
			switch {
			case err == nil:
				popped.add(m.ID)
			case ctx.Err() != nil:
				return nil
			case errors.Is(err, client.ErrEmpty):
				time.Sleep(time.Millisecond)
			default:
				return err
			}
		}
	})
}

// Several Clients make all calls at the same time: each pushed job is popped or removed, once.
func TestConcurrentUse(t *testing.T) {
	t.Parallel()
	const clients, workers, jobs = 3, 4, 200
	f := start(t)
	f.serve()
	var popped, removed tally
	var pushed atomic.Int64
	var producers sync.WaitGroup
	topics := []string{"t", "u", "v"}
	for n := range clients {
		c := f.open()
		defer f.consume(&popped, func(ctx context.Context) (client.Message, error) { return c.BPop(ctx, 0, topics[0], topics[1:]...) })()
		defer f.consume(&popped, func(ctx context.Context) (client.Message, error) { return c.BPop(ctx, time.Second, topics[n]) })()
		defer f.consume(&popped, func(ctx context.Context) (client.Message, error) { return c.Pop(ctx, topics[n]) })()
		for worker := range workers {
			producers.Go(func() {
				for job := range jobs {
					id := fmt.Sprint(n, "-", worker, "-", job)
					if err := useJob(t, c, id, topics[rand.N(len(topics))], &removed); err != nil {
						t.Error(err)
					}
					pushed.Add(1)
				}
			})
		}
	}
	producers.Wait()
	const total = clients * workers * jobs
	until(t, "all jobs are popped or removed", func() bool { return popped.total()+removed.total() >= total })
	f.Expect(state{})
	for n := range clients {
		for worker := range workers {
			for job := range jobs {
				id := fmt.Sprint(n, "-", worker, "-", job)
				if popped.count(id)+removed.count(id) != 1 {
					t.Errorf("job %s: popped %d times, removed %d times", id, popped.count(id), removed.count(id))
				}
			}
		}
	}
}

// useJob pushes a job, makes a random call on it, and records a removal.
func useJob(t *testing.T, c *client.Client, id, topic string, removed *tally) error {
	ctx := t.Context()
	if _, err := c.Push(ctx, client.Message{ID: id, Topic: topic, Body: "b"}, rand.N(5*time.Millisecond)); err != nil {
		return err
	}
	var err error
	switch rand.N(4) {
	case 0:
		_, err = c.Get(ctx, id)
	case 1:
		err = c.Reschedule(ctx, id, rand.N(5*time.Millisecond))
	case 2:
		var ok bool
		if ok, err = c.Remove(ctx, id); ok {
			removed.add(id)
		}
	}
	if errors.Is(err, client.ErrNotFound) { // the job is popped
		return nil
	}
	return err
}
