package wait

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
)

var (
	errClosed = errors.New("closed")
	errCut    = errors.New("cut")
	errBroken = redis.Error("WRONGTYPE ready queue t is a string, not a list")
)

// noRedis has no connections.
var noRedis = &redis.Pool{Dial: func() (redis.Conn, error) { return nil, errCut }}

// hand has partitions whose polls and messages the test makes by hand. Their Listener counts as subscribed.
type hand struct {
	*Partition // the first one
	t          *testing.T
	all        []*Partition
	guests     []*guest
	close      func()
	lost       int // lost jobs, as reported to the owner
}

func inHand(t *testing.T) *hand { return inHands(t, 1) }

func inHands(t *testing.T, partitions int) *hand {
	closing, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	h := &hand{t: t, close: cancel}
	owner := &batch.Owner{Running: new(sync.WaitGroup), Closed: errClosed}
	hooks := Hooks{slog.New(slog.DiscardHandler), func(store.Popped) {}, func(n int) { h.lost += n }}
	s := NewShared(closing, owner, store.New(noRedis, store.DefaultPrefix), hooks)
	for range partitions {
		of := store.New(noRedis, store.DefaultPrefix)
		p := s.NewPartition(of)
		p.batches = batch.NewSender(owner, of.Pipeline, &s.mu, p, 0)
		h.all = append(h.all, p)
	}
	e := s.NewListener(h.all...)
	e.running, e.state = true, subscribed
	h.Partition = h.all[0]
	return h
}

// guest is a caller that does what fleet.Takers.Take does, step by step.
type guest struct {
	*Caller
	h     *hand
	p     *Partition // that it polls
	next  int        // the topic to poll next
	waits bool       // it has polled, and waits
	got   *answer    // its final answer
}

// joins adds a caller, which polls the first partition.
func (h *hand) joins(r Request) *guest { return h.joinsAt(h.Partition, r) }

func (h *hand) joinsAt(p *Partition, r Request) *guest {
	h.t.Helper()
	g := &guest{Caller: h.shared.NewCaller(r), h: h, p: p}
	h.guests = append(h.guests, g)
	g.polls()
	return g
}

func (g *guest) polls() {
	then, lead, err := g.join(g.p, g.next)
	if lead != nil || err != nil {
		g.h.t.Fatal(lead != nil, err)
	}
	g.next = then
	g.goesOn()
}

// goesOn does what the caller's goroutine does with an answer, if there is one: it polls on, waits, or is done.
func (g *guest) goesOn() {
	for len(g.answers) > 0 && g.got == nil {
		a := <-g.answers
		isTemporary := a.err == nil || a.err != errClosed && store.Temporary(a.err)
		switch {
		case len(a.Jobs.Jobs) > 0 || !isTemporary || g.waits:
			g.got = &a
		case a.err == nil && g.next < len(g.Topics):
			g.polls()
		case g.Waits:
			g.waits = true
			g.enter(a.err)
		default:
			a.err = cmp.Or(a.err, error(store.ErrEmpty))
			g.got = &a
		}
	}
}

// leaves ends the caller's call, as its ctx or its timeout does.
func (g *guest) leaves(why error) {
	g.h.shared.mu.Lock()
	g.end(Jobs{}, why)
	g.h.shared.mu.Unlock()
	if len(g.answers) > 0 {
		a := <-g.answers
		g.got = &a
	}
}

// waiter returns a caller that waits for a job of any of the given topics.
func (h *hand) waiter(topics ...string) *guest {
	h.t.Helper()
	return h.joins(Request{Topics: topics, N: 1, Waits: true})
}

// registered returns a caller that has polled the topics and waits.
func (h *hand) registered(topics ...string) *guest {
	h.t.Helper()
	g := h.waiter(topics...)
	h.settle()
	return g
}

// asks returns the next poll to send, or nil.
func (h *hand) asks() *poll { return h.Partition.asks() }

func (p *Partition) asks() *poll {
	p.shared.mu.Lock()
	defer p.shared.mu.Unlock()
	if !p.Waiting() || len(p.turns) == 0 {
		return nil
	}
	return p.turns[0].newPoll()
}

// expectAsks checks which topics the next poll polls, and returns it.
func (h *hand) expectAsks(what string, topics ...string) *poll {
	h.t.Helper()
	one := h.asks()
	if one == nil || !slices.Equal(one.Topics, topics) {
		h.t.Fatalf("%s: want a poll of %q, got %+v", what, topics, one)
	}
	return one
}

// answer answers a poll, and lets the callers go on.
func (h *hand) answer(one *poll, popped store.Popped, err error) {
	h.t.Helper()
	if one == nil {
		h.t.Fatal("nothing is polled")
	}
	if popped.Remaining == nil {
		popped.Remaining = make([]int, len(one.queue.from))
	}
	h.shared.mu.Lock()
	one.done(popped, err)
	h.shared.mu.Unlock()
	for _, g := range h.guests {
		g.goesOn()
	}
}

// settle answers all polls: there is no job, and the client is registered.
func (h *hand) settle() {
	h.t.Helper()
	for one := h.asks(); one != nil; one = h.asks() {
		h.answer(one, store.Popped{Registered: one.Waiter != ""}, nil)
	}
}

// wakes delivers a message.
func (h *hand) wakes(topic string, jobs int) {
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	h.wake(topic, jobs)
}

// passed returns the topics to pass on, and clears them.
func (h *hand) passed() []string {
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	topics := h.unused
	h.unused = nil
	return topics
}

func (h *hand) expectPassed(what string, want ...string) {
	h.t.Helper()
	if got := h.passed(); !slices.Equal(got, want) {
		h.t.Errorf("%s: passed on: %q, want %q", what, got, want)
	}
}

// check answers a check of all waited topics with the lengths of their queues. added lists the topics whose registration was missing.
func (h *hand) check(registers bool, lengths map[string]int, added ...string) {
	h.shared.mu.Lock()
	topics := h.listener.queues(isWaitedFor)
	h.shared.mu.Unlock()
	if len(topics) > 0 {
		h.finds(h.listener.question(topics), registers, lengths, added...)
	}
}

// finds answers checks.
func (h *hand) finds(checks []*check, registers bool, lengths map[string]int, added ...string) {
	var found []store.Checked
	for _, k := range checks {
		one := store.Checked{Registered: registers}
		for _, t := range k.queues {
			one.Lengths = append(one.Lengths, lengths[t.topic.name])
			one.Added = append(one.Added, slices.Contains(added, t.topic.name))
		}
		found = append(found, one)
	}
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	h.listener.learn(checks, found)
}

// ready returns what is known about the topic in the partition, or nil.
func (p *Partition) ready(topic string) *readyQueue {
	if t := p.shared.topics[topic]; t != nil {
		return &t.in[p.number]
	}
	return nil
}

func isWaitedFor(q *readyQueue) bool { return len(q.topic.waiters) > 0 }

// facts returns what is known about the topic.
func (h *hand) facts(topic string) string {
	h.shared.mu.Lock()
	defer h.shared.mu.Unlock()
	h.Waiting() // drops turns that nobody needs any more
	t := h.ready(topic)
	if t == nil {
		return "dropped"
	}
	var facts []string
	if t.jobs > 0 {
		facts = append(facts, strconv.Itoa(t.jobs))
	}
	for _, f := range []struct {
		name string
		is   bool
	}{{"registered", t.registered}, {"told", t.owed}, {"checked", t.byCheck}, {"throttled", t.throttle != nil},
		{"polling", slices.ContainsFunc(t.queues, func(q *queue) bool { return q.isOut })}, {"due", slices.ContainsFunc(t.queues, func(q *queue) bool { return q.inTurns })}} {
		if f.is {
			facts = append(facts, f.name)
		}
	}
	return strings.Join(facts, " ")
}

func (h *hand) expectFacts(what, topic, want string) {
	h.t.Helper()
	if got := h.facts(topic); got != want {
		h.t.Errorf("%s: of %s we know: %q, want %q", what, topic, got, want)
	}
}

// closes ends the subscription.
func (h *hand) closes() {
	h.listener.close()
	h.listener.state = subscribed
}

// jobs returns n jobs of the topic.
func jobs(topic string, n int) (list []store.Job) {
	for i := range n {
		list = append(list, store.Job{ID: fmt.Sprint(topic, i+1), Topic: topic})
	}
	return list
}

// expectJob checks that the caller has received exactly that job.
func (g *guest) expectJob(t *testing.T, id string) {
	t.Helper()
	if g.goesOn(); g.got == nil {
		t.Fatalf("it has no answer; want job %s", id)
	}
	if a := g.got; a.err != nil || len(a.Jobs.Jobs) != 1 || a.Jobs.Jobs[0].ID != id {
		t.Errorf("got %+v, %v, want job %s", a.Jobs.Jobs, a.err, id)
	}
}

// expectErr checks the call's error.
func (g *guest) expectErr(t *testing.T, want ...error) {
	t.Helper()
	if g.goesOn(); g.got == nil {
		t.Fatalf("it has no answer; want %v", want)
	}
	for _, want := range want {
		if !errors.Is(g.got.err, want) || len(g.got.Jobs.Jobs) > 0 {
			t.Errorf("got %+v, %v, want %v", g.got.Jobs.Jobs, g.got.err, want)
		}
	}
}

// expectWaits checks that the caller has no result yet.
func (g *guest) expectWaits(t *testing.T) {
	t.Helper()
	if g.goesOn(); g.got != nil {
		t.Fatalf("it has its answer: %+v, %v", g.got.Jobs.Jobs, g.got.err)
	}
}
