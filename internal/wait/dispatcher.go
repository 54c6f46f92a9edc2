// Package wait gets jobs out of Redis for callers who want them at once, or wait for them.
//
// A caller has a position in a wait queue for each topic that it wants jobs of. Nothing is taken out of Redis
// before a caller is there to get it, and nothing is ever put back: a poll claims its callers, which
// stay until its answer, which the connection's timeouts bound. Callers that are not claimed can leave
// at once.
//
// Which caller gets a job: the first in the topic's queue that is not claimed (waitQueue.newPoll). Which Client
// is woken for it, Redis decides: the one that has waited longest (wake in store/lua/parts/queue.lua). Pull
// polls past both.
//
// A Client that is registered stands among the topic's waiters in Redis. Whatever makes a job ready takes the
// first of these out and wakes it, alone. So a caller that joins a registered queue need not
// poll. A check, now and then, finds what nobody has told of: see listener.
//
// Jobs may be in several partitions. Each has queues of its own, and a caller has a position in those of all.
// Partitions that the same connections lead to are a node: they share round trips and a subscription. A
// caller of one topic polls one partition, in turn, and then probes the others; one of several topics probes all of them
// before anything is taken for it, unless it is known where there are jobs: see oneTopic, severalTopics, probe and stock.
//
// What is known of a topic in a partition, and what changes it (waitQueue.on):
//
//	state      | known of the ready queue      | goes on
//	unknown    | nothing                       | a caller polls → polling; a check finds it empty, and registers us → registered
//	           |                               | woken, or a check finds jobs → ready
//	ready      | it has jobs                   | a caller is free → polling; no callers → passed on → unknown
//	           |                               | a check finds it empty, and registers us → registered
//	polling    | a poll is under way           | brought all it wanted: ready, or unknown if none are left
//	           |                               | brought less, and we were registered → registered; else unknown
//	           |                               | brought less because of a limit → throttled
//	           |                               | failed → unknown
//	           |                               | woken meanwhile → ready
//	registered | it is empty, and Redis wakes  | woken, or a check finds jobs → ready
//	           | us when it gets a job         | the subscription ends, or a poll of several topics is sent → unknown
//	throttled  | the topic's limit lets no     | woken, or its time is over → ready; a check finds it empty → registered
//	           | more be reserved now          | the subscription ends → unknown; a caller pops → polling
//
// A poll of several topics does not make its queues polling: callers of one of these topics need not wait for it.
package wait

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
)

// Kind is how jobs are taken: the zero Kind pops them.
type Kind struct {
	Reserves bool
	store.Reservation
}

// Request is what a caller wants: N jobs at most.
type Request struct {
	Topics  []string // what comes first goes first
	N       int
	Waits   bool          // for a job if there is none
	Timeout time.Duration // how long at most, 0 is as long as its context allows
	Kind
	// Limits are how many jobs of each topic are wanted at most, and Kinds how they are taken. nil is N of
	// each, all taken as Kind says.
	Limits []int
	Kinds  []Kind
}

// kind is how jobs of a topic are taken.
func (r *Request) kind(topic int) *Kind {
	if r.Kinds == nil {
		return &r.Kind
	}
	return &r.Kinds[topic]
}

// limit is how many jobs of a topic are wanted at most.
func (r *Request) limit(topic int) int {
	if r.Limits == nil {
		return r.N
	}
	return min(r.Limits[topic], r.N)
}

// Jobs are what came of a Request: leases, and when they were asked for, only if it reserves.
type Jobs struct {
	Jobs    []store.Job
	Leases  []store.Lease
	AskedAt time.Time
}

// Add appends what came later. When that was asked for counts as when the first was.
func (j *Jobs) Add(next Jobs) {
	if len(j.Jobs) == 0 {
		*j = next
		return
	}
	j.Jobs, j.Leases = append(j.Jobs, next.Jobs...), append(j.Leases, next.Leases...)
}

// cut takes the first jobs off, n at most.
func (j *Jobs) cut(n int) Jobs {
	n = min(n, len(j.Jobs))
	first := Jobs{Jobs: j.Jobs[:n:n], AskedAt: j.AskedAt}
	j.Jobs = j.Jobs[n:]
	if j.Leases != nil {
		first.Leases, j.Leases = j.Leases[:n:n], j.Leases[n:]
	}
	return first
}

var (
	// ErrLost: the answer to a pop did not arrive, and the job it may have brought is lost.
	ErrLost = errors.New("the answer was lost, and with it the job if there was one")
	// ErrNoAnswer is a timeout that ran out before Redis said whether there is a job.
	ErrNoAnswer = errors.New("redis did not answer within the timeout")
)

// Dispatcher serves the callers of a Client.
type Dispatcher struct {
	owner      *batch.Owner
	closing    context.Context
	hooks      Hooks
	mu         sync.Mutex // guards all queues, callers and listeners
	nodes      []*node
	partitions []*partition // of all nodes
	turn       int          // which partition is polled first next
	stock      *stock
	aimed      map[*severalTopics]bool // callers that have positions in the queues of one partition only
	polling    map[string]int          // of several partitions, how many polls of a topic's queues are under way that callers are to be told of
	blocked    []*waitQueue            // to be polled once callers are not claimed any more
	epochs     int                     // of all listeners
	inCluster  bool                    // partitions may move to other nodes
	routes     uint64                  // the stores' Routes when partitions were last grouped
	closed     bool
}

// Hooks are what a Dispatcher's owner is told of.
type Hooks struct {
	Logger *slog.Logger
	Popped func(store.Popped) // each answer that names stale or deferred jobs
	Lost   func(jobs int)     // as many jobs may be lost at most with an answer
}

// New makes a Dispatcher of the jobs of all the stores. closing ends when Close is about to be called.
func New(closing context.Context, owner *batch.Owner, hooks Hooks, stores ...*store.Store) *Dispatcher {
	d := &Dispatcher{owner: owner, closing: closing, hooks: hooks, polling: map[string]int{}, aimed: map[*severalTopics]bool{}, stock: newStock(len(stores))}
	d.turn = rand.IntN(len(stores)) // or all Clients would begin with the same one
	for i, s := range stores {
		d.partitions = append(d.partitions, &partition{dispatcher: d, store: s, index: i, queues: map[string]*waitQueue{}})
	}
	d.inCluster, d.routes = stores[0].InCluster(), stores[0].Routes()
	for _, here := range store.ByNode(d.partitions, (*partition).itsStore) {
		d.nodes = append(d.nodes, newNode(d, here))
	}
	return d
}

// Close ends all waits with the owner's error.
func (d *Dispatcher) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, c := range d.partitions[0].callers() { // who is in a queue of each
		c.end(Jobs{}, d.owner.Closed)
	}
	for c := range d.aimed {
		c.end(Jobs{}, d.owner.Closed)
	}
}

// Pull takes up to n jobs of one topic for a caller who holds the pipeline, past those who wait. more
// reports whether there may be jobs although fewer came than were wanted.
func (d *Dispatcher) Pull(s *store.Store, p *store.Pipeline, k Kind, topic string, n int) (got Jobs, more bool, err error) {
	pull := &poll{Kind: k, Wanted: store.Wanted{Topics: []string{topic}, N: n}, store: s}
	pull.send(p)
	popped, err := pull.receive(d)
	return Jobs{popped.Jobs, popped.Leases, pull.sentAt}, popped.More, err
}

// isAllAway reports whether no node answers, isAnyAway whether there is one that does not.
func (d *Dispatcher) isAllAway() bool {
	return !slices.ContainsFunc(d.nodes, func(n *node) bool { return !n.isAway })
}

func (d *Dispatcher) isAnyAway() bool {
	return slices.ContainsFunc(d.nodes, func(n *node) bool { return n.isAway })
}

// unblock has the queues polled whose callers were all claimed. The round trips of all nodes but by, whose are
// under way, are woken if they have work now.
func (d *Dispatcher) unblock(by *node) {
	blocked := d.blocked
	d.blocked = nil
	for _, q := range blocked {
		q.blocked = false
		q.goOn()
	}
	for _, n := range d.nodes {
		if n != by {
			n.batches.Wake()
		}
	}
}
