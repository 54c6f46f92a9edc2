// Package wait takes jobs for callers that want them at once or wait for them. It is two small things.
//
// Take (take.go): callers that want jobs of a topic in a partition in the same way share polls, one at a time. A poll is one script call, which brings
// each caller its jobs, or tells it that the ready queue is empty. Nothing is taken out of Redis before a caller is there to get it, and nothing is ever
// put back: a poll claims its callers, which stay until its reply; the connection's timeouts bound that.
//
// Await (caller.go, topic.go): the script that finds no job has registered the Client as a waiter of the topic, in the same step. So a caller that
// comes now need not poll, and waits in the topic's list, which is one for all partitions. A sign of jobs (a message, which only this Client got; a check;
// what a reply says is left) is a hint about a ready queue: the first waiting callers are polled for. A hint that no caller here can use wakes the next Client.
//
// What holds between the two, under Shared.mu:
//   - A ready queue is registered only if Redis will wake us for its next job. News that came after a poll or check was sent is newer than its reply.
//   - While callers wait for a topic, each of its ready queues is registered, or throttled, or has a hint, or is being polled, or a check is due within
//     checkEvery.
//   - A caller is claimed by one poll at a time. It may leave at any other moment, and then nothing is lost: hints belong to the ready queue.
//
// A Listener has the subscription of some partitions, and checks their ready queues, because a message can get lost.
package wait

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
)

// Kind is how jobs are taken. The zero Kind pops them.
type Kind struct {
	Reserves bool
	store.Reservation
}

// Request is what a caller wants: up to N jobs.
type Request struct {
	Topics []string // in order of precedence
	N      int
	Waits  bool // for a job, if there is none
	Kind
	// Limits are the most jobs wanted of each topic, and Kinds how they are taken. nil means N of
	// each, taken as Kind says.
	Limits []int
	Kinds  []Kind
}

func (r *Request) kind(topic int) *Kind {
	if r.Kinds == nil {
		return &r.Kind
	}
	return &r.Kinds[topic]
}

func (r *Request) limit(topic int) int {
	if r.Limits == nil {
		return r.N
	}
	return min(r.Limits[topic], r.N)
}

// ErrLost: the reply to a pop did not arrive, and a job in it is lost.
const ErrLost store.Error = "the reply was lost, and with it the job if there was one"

// Shared is what the partitions of a Client share.
type Shared struct {
	owner   *batch.Owner
	closing context.Context
	hooks   Hooks
	keeper  *store.Store // knows which servers run
	mu      sync.Mutex   // guards partitions, topics, queues, callers and listeners

	partitions []*Partition
	topics     map[string]*topic // that have callers, or are known to be empty

	served       bool      // a server of ours runs, which wakes us
	askedServed  time.Time // when that was last asked
	warnedServed time.Time // when we last said that none runs
	warnedPolls  bool      // we have said that we may not subscribe
}

// Hooks report to the Client.
type Hooks struct {
	Logger *slog.Logger
	Popped func(store.Popped) // each reply that names stale or deferred jobs
	Lost   func(jobs int)     // at most this many jobs were lost with a reply
}

// NewShared returns what the Client's partitions share. closing ends all waits, with the owner's error.
// keeper knows which servers run.
func NewShared(closing context.Context, owner *batch.Owner, keeper *store.Store, hooks Hooks) *Shared {
	return &Shared{owner: owner, closing: closing, keeper: keeper, hooks: hooks, topics: map[string]*topic{}}
}
