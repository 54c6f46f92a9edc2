package fleet

import (
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Sharing returns the places of the stores that share a Redis, and so a connection: of all of them or, in a cluster, of each store by itself, wherever
// its slot is.
func Sharing(stores []*store.Store) (groups [][]int) {
	at := map[*store.Store]int{}
	for place, s := range stores {
		if !s.InCluster() {
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

// Each makes a call to each of the stores, one after the other or, in a cluster, to a few at a time, and returns their errors. A Redis that does not respond,
// or a slot that nobody serves, is tried once: its other calls are not made, and have the same error.
func Each(stores []*store.Store, call func(i int) error) []error {
	failed := make([]error, len(stores))
	ByRedis(stores, func(places []int) {
		var away error
		for _, i := range places {
			if failed[i] = away; away == nil {
				failed[i] = call(i)
			}
			if store.KindOf(failed[i]) == store.NoAnswer || store.OfOneSlot(failed[i]) {
				away = failed[i]
			}
		}
	})
	return failed
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
