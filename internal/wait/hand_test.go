package wait

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

var (
	errClosed = errors.New("closed")
	errCut    = errors.New("cut")
	errBroken = redis.Error("WRONGTYPE ready queue t is a string, not a list")
)

// hand is a Dispatcher whose polls and messages the test makes by hand. Its listener counts as subscribed.
type hand struct {
	*Dispatcher
	t    *testing.T
	s    *partition
	lost int   // lost jobs, as reported to the owner
	one  *poll // in flight, for TestStates
}

func inHand(t *testing.T) *hand { return inHands(t, 1) }

// inHands returns a hand with several nodes, each with the given number of partitions.
func inHands(t *testing.T, partitions ...int) *hand {
	var stores []*store.Store
	for _, n := range partitions {
		pool := &redis.Pool{Dial: func() (redis.Conn, error) { return nil, errCut }}
		stores = append(stores, fleet.Layout{Partitions: n}.Open(pool, store.DefaultPrefix).Stores...)
	}
	closing, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	owner := &batch.Owner{Running: new(sync.WaitGroup), Closed: errClosed}
	h := &hand{t: t}
	hooks := Hooks{slog.New(slog.DiscardHandler), func(store.Popped) {}, func(n int) { h.lost += n }}
	h.Dispatcher = New(closing, owner, hooks, stores...)
	h.s, h.turn = h.partitions[0], 0
	for _, n := range h.nodes {
		n.batches = batch.NewSender(owner, n.partitions[0].store.Pipeline, &h.mu, n, 0)
		n.listener.running, n.listener.state = true, subscribed
	}
	return h
}

// guest is a caller and its result.
type guest struct {
	*caller
}

// joins adds a caller.
func (h *hand) joins(r Request) *guest {
	h.t.Helper()
	g := &guest{newCaller(h.Dispatcher, r)}
	if lead, err := h.join(g.caller); lead != nil || err != nil {
		h.t.Fatal(lead != nil, err)
	}
	return g
}

// waiter returns a caller that waits for a job of any of the given topics.
func (h *hand) waiter(topics ...string) *guest {
	h.t.Helper()
	return h.joins(Request{Topics: topics, N: 1, Waits: true})
}

// asks returns the next poll to send, or nil.
func (h *hand) asks() *poll { return h.asksOf(h.s.node) }

func (h *hand) asksOf(n *node) *poll {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !n.Waiting() || len(n.turns) == 0 {
		return nil
	}
	next := n.turns[0]
	n.turns = n.turns[1:]
	one := next.newPoll()
	if one.epoch = n.listener.epoch; n.listener.state == subscribed {
		one.register(n.listener)
	}
	return one
}

// probesOf begins a node's probes.
func (h *hand) probesOf(n *node) (begun []*probe) {
	h.mu.Lock()
	defer h.mu.Unlock()
	begun, n.probes = n.probes, nil
	for _, s := range begun {
		s.begin()
	}
	return begun
}

// finds answers a probe with the lengths of the topics' queues in the probed partition.
func (h *hand) finds(s *probe, registers bool, lengths map[string]int, err error) {
	found := store.Polled{Registered: registers}
	if s.check != nil && err == nil {
		for _, l := range s.check.queues {
			found.Lengths, found.Added = append(found.Lengths, lengths[l.topic]), append(found.Added, false)
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.done(found, err)
}

// answer answers a poll.
func (h *hand) answer(one *poll, p store.Popped, err error) {
	h.t.Helper()
	if one == nil {
		h.t.Fatal("nothing was asked")
	}
	if p.Remaining == nil {
		p.Remaining = make([]int, len(one.queues))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	one.done(p, err)
}

// settle answers all pending polls: there is no job, and the client is registered.
func (h *hand) settle() {
	h.t.Helper()
	for one := h.asks(); one != nil; one = h.asks() {
		h.answer(one, store.Popped{Registered: one.Waiter != ""}, nil)
	}
}

// passed returns the topics to pass on, and clears them.
func (h *hand) passed() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var topics []string
	for _, w := range h.s.woken {
		topics = append(topics, w.topic)
	}
	h.s.woken = nil
	return topics
}

func (h *hand) expectPassed(what string, want ...string) {
	h.t.Helper()
	if got := h.passed(); !slices.Equal(got, want) {
		h.t.Errorf("%s: passed on: %q, want %q", what, got, want)
	}
}

// check answers a check of the listener with the lengths of the topics' queues. added lists the topics whose registration was
// missing.
func (h *hand) check(registers bool, lengths map[string]int, added ...string) {
	h.mu.Lock()
	queues := h.s.waited()
	h.mu.Unlock()
	h.checkOf(queues, registers, lengths, added...)
}

func (h *hand) checkOf(queues []*waitQueue, registers bool, lengths map[string]int, added ...string) {
	q := h.s.listener.question(queues)
	found := store.Polled{Registered: registers}
	for _, l := range queues {
		found.Lengths = append(found.Lengths, lengths[l.topic])
		found.Added = append(found.Added, slices.Contains(added, l.topic))
	}
	h.learn(q, found)
}

// learn answers a check of one partition's queues.
func (h *hand) learn(q []*check, found store.Polled) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.s.listener.learn(q, []store.Polled{found})
}

// jobs returns n jobs of the topic.
func jobs(topic string, n int) (list []store.Job) {
	for i := range n {
		list = append(list, store.Job{ID: fmt.Sprint(topic, i+1), Topic: topic})
	}
	return list
}

// limit returns the maximum number of jobs that the poll wants of a topic.
func (t *poll) limit(topic int) int {
	if t.Limits == nil {
		return t.N
	}
	return t.Limits[topic]
}

// isRegistered reports whether the state is registered.
func (q *waitQueue) isRegistered() bool {
	return q.state == registered || q.state == polling && q.next == registered
}

// topics returns a poll's topics.
func (t *poll) topics() (names []string) {
	for _, l := range t.queues {
		names = append(names, l.topic)
	}
	return names
}

// expectJob checks that the caller has received exactly that job.
func (g *guest) expectJob(t *testing.T, id string) {
	t.Helper()
	if len(g.answers) != 1 {
		t.Fatalf("it has no answer; want job %s", id)
	}
	if a := <-g.answers; a.err != nil || len(a.Jobs.Jobs) != 1 || a.Jobs.Jobs[0].ID != id {
		t.Errorf("got %+v, %v, want job %s", a.Jobs.Jobs, a.err, id)
	}
}

// expectErr checks the call's error.
func (g *guest) expectErr(t *testing.T, want ...error) {
	t.Helper()
	if len(g.answers) != 1 {
		t.Fatalf("it has no answer; want %v", want)
	}
	a := <-g.answers
	for _, want := range want {
		if !errors.Is(a.err, want) || len(a.Jobs.Jobs) > 0 {
			t.Errorf("got %+v, %v, want %v", a.Jobs.Jobs, a.err, want)
		}
	}
}

// expectWaits checks that the caller has no result yet.
func (g *guest) expectWaits(t *testing.T) {
	t.Helper()
	if len(g.answers) > 0 {
		a := <-g.answers
		t.Fatalf("it has its answer: %+v, %v", a.Jobs.Jobs, a.err)
	}
}
