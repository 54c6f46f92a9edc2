package batch

import (
	"math"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/redisconn"
)

// rideOut is redisconn.RideOut, but for tests.
var rideOut = redisconn.RideOut

// setAside has callers of one store, whose call was refused, wait for round trips of their own. For whom that goes on for
// too long gets the refusal.
func (of *batch[T]) setAside(callers []*caller[T], refusal error) {
	b := of.batcher
	b.mu.Lock()
	defer b.mu.Unlock()
	s := callers[0].store
	n := b.aside[s]
	switch {
	case n == nil:
		n = newBatch(b, 1)
		n.latest, n.isAside = s, true
		b.aside[s] = n
	case n == of && n.tries == nil: // it was tried where it should be by now
		n.tries = redisconn.NewTries(math.MaxInt64)
	}
	now := time.Now()
	var again []*caller[T]
	for _, c := range callers {
		if c.until.IsZero() {
			c.until = now.Add(rideOut)
		}
		switch {
		case c.batch == nil: // it has left
		case now.Before(c.until):
			c.batch = n
			again = append(again, c)
		default:
			c.answer <- refusal
		}
	}
	n.queue = slices.Insert(n.queue, 0, again...) // an ID may stand there again
	n.trips.Wake()
}

// isServed ends that the batch's store is set aside, if it is: who comes now shares round trips with others of its node.
func (n *batch[T]) isServed() {
	if !n.isAside {
		return
	}
	n.batcher.mu.Lock()
	defer n.batcher.mu.Unlock()
	n.tries = nil
	if n.batcher.aside[n.latest] == n {
		delete(n.batcher.aside, n.latest)
	}
}
