// Package wait takes jobs out of Redis for callers that want them at once or wait for them.
//
// A caller has a position in a wait queue for each of its topics. Nothing is taken out of Redis
// before a caller is there to get it, and nothing is ever put back: a poll claims its callers, which
// stay until its reply; the connection's timeouts bound that. Callers that are not claimed can leave
// at once.
//
// The caller that gets a job is the first unclaimed one in the topic's queue (waitQueue.newPoll). The Client
// that is woken for it is the one that has waited longest, which Redis decides (wake in store/lua/parts/queue.lua). Pull
// ignores both orders.
//
// A registered Client is among the topic's waiters in Redis. Whatever makes a job ready removes the
// first waiter and wakes it alone. So a caller that joins a registered queue need not
// poll. Periodic checks find jobs whose messages were lost: see listener.
//
// With several partitions, each has its own queues, and a caller has a position in all of them.
// Partitions on one Redis, or on one node of a cluster, form a node here: they share batches and a subscription. A
// caller of one topic polls one partition, in turn, and then probes the others. A caller of several topics probes all of them
// before it takes anything, unless it knows where there are jobs: see oneTopic, severalTopics, probe and stock.
//
// What we know about a topic in a partition, and what changes it (waitQueue.on):
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
// A poll of several topics does not put its queues into the polling state: callers of one topic need not wait for it.
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

// Kind is how jobs are taken. The zero Kind pops them.
type Kind struct {
	Reserves bool
	store.Reservation
}

// Request is what a caller wants: up to N jobs.
type Request struct {
	Topics  []string // in order of precedence
	N       int
	Waits   bool          // for a job, if there is none
	Timeout time.Duration // from the end of the first poll of the queues; 0 means as long as its context allows
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

// Jobs is the result of a Request. Leases, and when they were requested, are set only if it reserves.
type Jobs struct {
	Jobs    []store.Job
	Leases  []store.Lease
	AskedAt time.Time
}

// Add appends later jobs. AskedAt stays that of the first.
func (j *Jobs) Add(next Jobs) {
	if len(j.Jobs) == 0 {
		*j = next
		return
	}
	j.Jobs, j.Leases = append(j.Jobs, next.Jobs...), append(j.Leases, next.Leases...)
}

// cut takes off the first jobs, up to n.
func (j *Jobs) cut(n int) Jobs {
	n = min(n, len(j.Jobs))
	first := Jobs{Jobs: j.Jobs[:n:n], AskedAt: j.AskedAt}
	j.Jobs = j.Jobs[n:]
	if j.Leases != nil {
		first.Leases, j.Leases = j.Leases[:n:n], j.Leases[n:]
	}
	return first
}

// ErrLost: the reply to a pop did not arrive, and a job in it is lost.
var ErrLost = errors.New("the answer was lost, and with it the job if there was one")

// Dispatcher serves the waiting calls of a Client.
type Dispatcher struct {
	owner      *batch.Owner
	closing    context.Context
	hooks      Hooks
	mu         sync.Mutex // guards all queues, callers and listeners
	nodes      []*node
	partitions []*partition // of all nodes
	turn       int          // the partition to poll first next
	stock      *stock
	aimed      map[*severalTopics]bool // callers with positions in one partition only
	polling    map[string]int          // with several partitions: polls in flight of a topic's queues whose results callers wait for
	blocked    []*waitQueue            // to be polled once their callers are free
	epochs     int                     // of all listeners
	inCluster  bool                    // partitions can move to other nodes
	routes     uint64                  // the stores' Routes when the partitions were last grouped
	closed     bool
}

// Hooks report to the Dispatcher's owner.
type Hooks struct {
	Logger *slog.Logger
	Popped func(store.Popped) // each reply that names stale or deferred jobs
	Lost   func(jobs int)     // at most this many jobs were lost with a reply
}

// New makes a Dispatcher for the jobs of all stores. closing ends just before Close is called.
func New(closing context.Context, owner *batch.Owner, hooks Hooks, stores ...*store.Store) *Dispatcher {
	d := &Dispatcher{owner: owner, closing: closing, hooks: hooks, polling: map[string]int{}, aimed: map[*severalTopics]bool{}, stock: newStock(len(stores))}
	d.turn = rand.IntN(len(stores)) // so that not all Clients begin with the same one
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
	for _, c := range d.partitions[0].callers() { // a caller is in a queue of each partition
		c.end(Jobs{}, d.owner.Closed)
	}
	for c := range d.aimed {
		c.end(Jobs{}, d.owner.Closed)
	}
}

// Pull takes up to n jobs of one topic for a caller that holds the pipeline, ahead of waiting callers. more
// reports that there may be more jobs although fewer than n came.
func (d *Dispatcher) Pull(s *store.Store, p *store.Pipeline, k Kind, topic string, n int) (got Jobs, more bool, err error) {
	pull := &poll{Kind: k, Wanted: store.Wanted{Topics: []string{topic}, N: n}, store: s}
	pull.send(p)
	popped, err := pull.receive(d)
	return Jobs{popped.Jobs, popped.Leases, pull.sentAt}, popped.More, err
}

// isAllAway reports whether no node answers, isAnyAway whether some node does not.
func (d *Dispatcher) isAllAway() bool {
	return !slices.ContainsFunc(d.nodes, func(n *node) bool { return !n.isAway })
}

func (d *Dispatcher) isAnyAway() bool {
	return slices.ContainsFunc(d.nodes, func(n *node) bool { return n.isAway })
}

// unblock polls the queues whose callers were all claimed. It wakes the batches of all nodes except by, whose batch
// is in progress.
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
