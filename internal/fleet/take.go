package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/wait"
)

// Takers takes jobs of all partitions for a Client.
type Takers struct {
	shared     *wait.Shared
	partitions []*wait.Partition
	listeners  []*wait.Listener // one for all partitions; in a cluster one for each
	first      func(n int) int  // chooses the partition to poll first
}

// Takers returns the Client's Takers: see wait.NewShared.
func (f *Fleet) Takers(closing context.Context, owner *batch.Owner, hooks wait.Hooks) *Takers {
	t := &Takers{shared: wait.NewShared(closing, owner, f.Stores[0], hooks), first: rand.IntN}
	for _, s := range f.Stores {
		t.partitions = append(t.partitions, t.shared.NewPartition(s))
	}
	for _, places := range Sharing(f.Stores) {
		var here []*wait.Partition
		for _, i := range places {
			here = append(here, t.partitions[i])
		}
		t.listeners = append(t.listeners, t.shared.NewListener(here...))
	}
	return t
}

// Renew makes the listeners reconnect: see wait.Listener.
func (t *Takers) Renew() {
	for _, e := range t.listeners {
		e.Renew()
	}
}

// Take gets up to as many jobs as wanted, of one partition. Without any it waits for one until the timeout ends (0: as long as ctx allows), or
// returns store.ErrEmpty at once if the caller does not wait. The timeout bounds the wait for a job, not how long Redis takes to say whether there is one.
func (t *Takers) Take(ctx context.Context, r wait.Request, timeout time.Duration) (wait.Jobs, error) {
	c := t.shared.NewCaller(r)
	got, err := t.poll(ctx, c)
	switch {
	case err == nil:
	case !r.Waits && err != store.ErrEmpty && store.OfOneSlot(err):
		err = t.partitions[0].Store().UntilServed(ctx, func() (err error) {
			got, err = t.poll(ctx, c)
			return err
		})
	case r.Waits && (err == store.ErrEmpty || ctx.Err() == nil && store.Temporary(err)):
		return c.Wait(ctx, timeout, err)
	}
	return got, err
}

// poll polls the partition, or several. A caller that waits polls the first one that may have jobs, and then waits for the others, too. One that does not
// wait polls the first one and then all that have jobs.
func (t *Takers) poll(ctx context.Context, c *wait.Caller) (got wait.Jobs, err error) {
	if len(t.partitions) == 1 {
		return c.Poll(ctx, t.partitions[0])
	}
	all := t.inOrder()
	if c.Waits {
		if p := c.First(all); p != nil {
			return c.Poll(ctx, p)
		}
		return got, store.ErrEmpty
	}
	failed := error(store.ErrEmpty)
	for k := 0; k < len(all); k++ {
		if got, err = c.Poll(ctx, all[k]); err == nil || ctx.Err() != nil {
			return got, err
		}
		if failed == store.ErrEmpty || errors.Is(err, wait.ErrLost) {
			failed = err
		}
		if k == 0 && len(all) > 1 {
			have, err := t.withJobs(ctx, all[1:], c.Topics)
			if failed == store.ErrEmpty && err != nil {
				failed = err
			}
			all = append(all[:1], have...)
		}
	}
	return wait.Jobs{}, failed
}

// inOrder returns all partitions. Those that did not answer a moment ago come last. The first one is chosen at random: if calls took turns, those of one
// topic might meet the same partition each time, as calls of others come in between.
func (t *Takers) inOrder() (order []*wait.Partition) {
	first := t.first(len(t.partitions))
	var shunned []*wait.Partition
	for k := range t.partitions {
		if p := t.partitions[(first+k)%len(t.partitions)]; p.IsShunned() {
			shunned = append(shunned, p)
		} else {
			order = append(order, p)
		}
	}
	return append(order, shunned...)
}

// withJobs returns those of the partitions that have jobs of a topic, and why some can't say so.
func (t *Takers) withJobs(ctx context.Context, of []*wait.Partition, topics []string) (have []*wait.Partition, failed error) {
	var stores []*store.Store
	for _, p := range of {
		stores = append(stores, p.Store())
	}
	found := make([]bool, len(of))
	var mu sync.Mutex
	ByRedis(stores, func(places []int) {
		polls := make([]store.Check, len(places))
		for k, i := range places {
			polls[k] = store.Check{Store: stores[i], Topics: topics}
		}
		polled, err := store.CheckAll(ctx, polls...)
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			failed = err
			return
		}
		for k, i := range places {
			found[i] = slices.Max(polled[k].Lengths) > 0
		}
	})
	for i, p := range of {
		if found[i] {
			have = append(have, p)
		}
	}
	return have, failed
}

// Partition is what the partition of that number knows, for tests.
func (t *Takers) Partition(i int) *wait.Partition { return t.partitions[i] }
