package history

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

var long = flag.Duration("history.for", 6*time.Second, "how long the calls go on")

const (
	topic     = "history"
	producers = 4
	consumers = 6
)

// recorder collects what the calls were told.
type recorder struct {
	mu      sync.Mutex
	history []porcupine.Operation
	answers map[answer]int
}

// add records a call. One whose reply was lost never returns.
func (r *recorder) add(caller int, c call, got result) {
	got.returned = time.Now()
	returned := got.returned.UnixNano()
	if got.answer == unknown {
		returned = math.MaxInt64
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.history = append(r.history, porcupine.Operation{ClientId: caller, Input: c, Call: c.began.UnixNano(), Output: got, Return: returned})
	r.answers[got.answer]++
}

// told classifies the error of a call.
func told(err error) result {
	switch {
	case err == nil:
		return result{answer: done}
	case errors.Is(err, client.ErrLeaseLost), errors.Is(err, client.ErrNotFound):
		return result{answer: refused}
	}
	return result{answer: unknown}
}

func TestJobsLiveThroughTheirCallsInSomeOrder(t *testing.T) {
	for name, faults := range map[string]func(context.Context, *redistest.Server){
		"connections are killed": killConnections,
		"Redis is restarted":     restartRedis,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
			check(t, work(t, redis, faults), porcupine.Ok)
		})
	}
}

// The checker notices a job that is delivered while another consumer's lease holds.
func TestCheckerNoticesADoubleDelivery(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	check(t, work(t, redis, endLeases), porcupine.Illegal)
}

func check(t *testing.T, r *recorder, want porcupine.CheckResult) {
	t.Helper()
	t.Logf("%d calls: %v", len(r.history), r.answers)
	if r.answers[done] < 200 {
		t.Errorf("only %d calls were executed", r.answers[done])
	}
	m := model.ToModel()
	if got, info := porcupine.CheckOperationsVerbose(m, r.history, time.Minute); got != want {
		file := filepath.Join(os.TempDir(), "delayer-history.html")
		t.Errorf("the history is %s, want %s; drawn in %s: %v", got, want, file, porcupine.VisualizePath(m, info, file))
	}
}

// work lets producers, consumers and servers work until the time is over, and returns what they were told.
func work(t *testing.T, redis *redistest.Server, faults func(context.Context, *redistest.Server)) *recorder {
	ctx, cancel := context.WithTimeout(t.Context(), *long)
	defer cancel()
	r := &recorder{answers: map[answer]int{}}
	var group sync.WaitGroup
	defer group.Wait()
	for range 2 {
		s := clienttest.Server(redis.Pool(), server.Options{})
		group.Go(func() { s.Run(ctx) })
	}
	for i := range producers + consumers {
		c := redistest.Must(client.OpenPool(client.PoolOptions{Addr: redis.Addr}))
		t.Cleanup(func() { c.Close() })
		group.Go(func() {
			if i < producers {
				r.produce(ctx, i, c)
			} else {
				r.consume(ctx, i, c)
			}
		})
	}
	faults(ctx, redis)
	return r
}

// produce pushes, removes and reschedules jobs. A job gets a limited number of calls, so that each history is short.
func (r *recorder) produce(ctx context.Context, caller int, c *client.Client) {
	for n := 0; ctx.Err() == nil; n++ {
		id := fmt.Sprintf("%d-%d", caller%2, n/6) // two producers share a job
		o := call{id: id, kind: push, after: time.Duration(rand.IntN(30)) * time.Millisecond, began: time.Now()}
		switch rand.IntN(5) {
		case 0:
			o.kind = remove
			was, err := c.Remove(ctx, id)
			got := told(err)
			if err == nil && was == "" {
				got.answer = refused
			}
			r.add(caller, o, got)
		case 1:
			o.kind = reschedule
			r.add(caller, o, told(c.Reschedule(ctx, id, o.after)))
		default:
			_, err := c.Push(ctx, client.Message{ID: id, Topic: topic, Body: "body"}, o.after)
			r.add(caller, o, told(err))
		}
		time.Sleep(time.Duration(rand.IntN(10)) * time.Millisecond)
	}
}

// consume reserves jobs and settles most of them; of some the lease ends.
func (r *recorder) consume(ctx context.Context, caller int, c *client.Client) {
	for ctx.Err() == nil {
		began := time.Now()
		list, err := c.Fetch(ctx, client.FetchOptions{Topics: []client.FetchTopic{{Topic: topic}}, Lease: lease, Timeout: 50 * time.Millisecond})
		if err != nil {
			continue // a reserve whose reply was lost shows in the next attempt
		}
		d := list[0]
		r.add(caller, call{kind: reserve, id: d.ID, began: began}, result{answer: done, token: d.Token, attempt: d.Attempt})
		for settled := false; !settled; {
			o := call{id: d.ID, token: d.Token, after: time.Duration(rand.IntN(20)) * time.Millisecond}
			time.Sleep(time.Duration(rand.IntN(int(lease) * 5 / 4)))
			o.began = time.Now()
			var err error
			switch settled = true; rand.IntN(8) {
			case 0:
				o.kind, err = retry, d.Retry(ctx, o.after, nil)
			case 1:
				o.kind, err = release, d.Release(ctx, 0)
			case 2:
				o.kind, o.after, settled = extend, lease/2, false
				err = d.Extend(ctx, o.after)
			case 3: // the consumer forgets it
				continue
			default:
				o.kind, err = ack, d.Ack(ctx)
			}
			got := told(err)
			r.add(caller, o, got)
			settled = settled || got.answer != done
		}
	}
}

func killConnections(ctx context.Context, redis *redistest.Server) {
	for every(ctx, 60*time.Millisecond) {
		redis.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
}

func restartRedis(ctx context.Context, redis *redistest.Server) {
	for every(ctx, 1500*time.Millisecond) {
		redis.Kill()
		redis.Restart()
	}
}

// endLeases makes jobs due whose leases have not ended.
func endLeases(ctx context.Context, redis *redistest.Server) {
	for every(ctx, 20*time.Millisecond) {
		for _, id := range redis.Strings("ZRANGEBYSCORE", "delayer:job_pool", "-inf", "+inf") {
			redis.Do("ZADD", "delayer:job_pool", "XX", 1, id)
		}
	}
}

func every(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
