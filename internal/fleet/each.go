package fleet

import (
	"context"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Sharing returns the places of the stores that share a Redis, and so a connection: of all of them or, in a cluster, of each store by itself, wherever
// its slot is.
func Sharing(stores []*store.Store) (groups [][]int) {
	if len(stores) == 0 {
		return nil
	}
	inCluster, at := stores[0].InCluster(), map[*store.Store]int{}
	for place, s := range stores {
		if !inCluster {
			s = stores[0]
		}
		group, known := at[s]
		if !known {
			group = len(groups)
			at[s], groups = group, append(groups, nil)
		}
		groups[group] = append(groups[group], place)
	}
	return groups
}

// ByRedis calls do with the places of stores that share a Redis: see Sharing. In a cluster it makes a few of these calls at a time.
func ByRedis(stores []*store.Store, do func(places []int)) {
	groups := Sharing(stores)
	if len(groups) == 1 {
		do(groups[0])
		return
	}
	few := NewFew()
	var calls sync.WaitGroup
	for _, places := range groups {
		calls.Go(func() { few.Do(func() { do(places) }) })
	}
	calls.Wait()
}

const (
	// atATime is the number of partitions of a cluster that are called at a time: a call blocks Redis for up to the stall budget, and all may be
	// on one node.
	atATime = 8
	// slow is how long a call counts as one of them. After that it waits for a slow node, and must not hold up the others.
	slow = 20 * time.Millisecond
)

// Few lets a few calls run at a time, in the order in which they come. A call that takes long no longer counts. A nil Few lets all run.
type Few chan struct{}

// NewFew returns a Few for the partitions of a cluster.
func NewFew() Few { return make(Few, atATime) }

// Do makes the call when its turn comes.
func (f Few) Do(call func()) {
	if f == nil {
		call()
		return
	}
	f <- struct{}{}
	leave := time.AfterFunc(slow, func() { <-f })
	call()
	if leave.Stop() {
		<-f
	}
}

// InTurn makes a call to each of the stores, those of one Redis in order, on one connection, with some in flight. It passes each answer to answered, one
// at a time.
func InTurn[T any](ctx context.Context, stores []*store.Store, inFlight int, call func(i int) *store.Call[T], answered func(i int, answer T, err error)) {
	var mu sync.Mutex
	ByRedis(stores, func(places []int) {
		first := stores[places[0]]
		failed := first.UntilServed(ctx, func() error {
			p, err := first.Pipeline(ctx)
			if err != nil {
				return err
			}
			defer p.Close()
			var refused []int
			inTurn(ctx, p, len(places), inFlight, func(k int) *store.Call[T] { return call(places[k]) }, func(k int, answer T, failed error) bool {
				if store.OfOneSlot(failed) {
					refused, err = append(refused, places[k]), failed
					return true
				}
				mu.Lock()
				defer mu.Unlock()
				answered(places[k], answer, failed)
				return true
			})
			places = refused
			return err
		})
		if failed == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		for _, i := range places {
			var none T
			answered(i, none, failed)
		}
	})
}

// inTurn makes n calls in the pipeline. Once answered returns false, no further call is sent.
func inTurn[T any](ctx context.Context, p *store.Pipeline, n, inFlight int, call func(k int) *store.Call[T], answered func(k int, answer T, err error) (goOn bool)) {
	var sent []*store.Call[T]
	goOn := true
	for k := range n {
		for goOn && len(sent) < min(k+inFlight, n) {
			sent = append(sent, call(len(sent)).Send(p))
			p.Flush()
		}
		if k == len(sent) {
			return
		}
		answer, err := sent[k].Wait(ctx)
		sent[k] = nil
		goOn = answered(k, answer, err) && goOn
	}
}
