package wait

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// asker returns a caller that does not wait.
func (h *hand) asker(topics ...string) *guest {
	h.t.Helper()
	return h.joins(Request{Topics: topics, N: 1})
}

// waiters returns n callers that wait for the topic.
func (h *hand) waiters(topic string, n int) (guests []*guest) {
	h.t.Helper()
	for range n {
		guests = append(guests, h.waiter(topic))
	}
	return guests
}

// expectClaims checks which callers a poll claims, and for how many jobs.
func (h *hand) expectClaims(one *poll, n int, guests ...*guest) {
	h.t.Helper()
	if one == nil {
		h.t.Fatal("nothing is polled")
	}
	var claimed []*Caller
	for _, c := range one.claims {
		claimed = append(claimed, c.Caller)
	}
	if one.N != n || !slices.EqualFunc(claimed, guests, func(c *Caller, g *guest) bool { return c == g.Caller }) {
		h.t.Fatalf("a poll for %d jobs and %d callers, want %d and %d others", one.N, len(claimed), n, len(guests))
	}
}

// Callers of one topic are served in the order of their arrival, also by polls for fewer jobs than there are callers. Claimed callers are skipped.
func TestCallersInOrder(t *testing.T) {
	h := inHand(t)
	g := h.waiters("t", 5)
	one := h.asks()
	h.expectClaims(one, 5, g...)
	if h.asks() != nil {
		t.Fatal("it is polled twice at a time")
	}
	h.answer(one, store.Popped{Jobs: jobs("t", 2), Registered: true}, nil)
	g[0].expectJob(t, "t1")
	g[1].expectJob(t, "t2")
	g[2].expectWaits(t)
	h.wakes("t", 2)
	one = h.asks()
	h.expectClaims(one, 2, g[2], g[3])
	g[2].leaves(store.ErrEmpty) // claimed: it gets the result in flight
	h.answer(one, store.Popped{Jobs: jobs("t", 1), Registered: true}, nil)
	g[2].expectJob(t, "t1")
	g[3].expectWaits(t)
	g[3].leaves(store.ErrEmpty)
	g[3].expectErr(t, store.ErrEmpty)
	h.wakes("t", 9)
	one = h.asks()
	h.expectClaims(one, 1, g[4])
	h.answer(one, store.Popped{Jobs: jobs("t", 1), Registered: true}, nil)
	g[4].expectJob(t, "t1")
	h.expectFacts("nobody waits, and we are not registered", "t", "dropped")
}

// When a caller leaves, before or after the poll for it, the others keep their order.
func TestLeavingAQueue(t *testing.T) {
	for gone := range 3 {
		for _, waiting := range []bool{false, true} {
			h := inHand(t)
			g := h.waiters("t", 3)
			if waiting {
				h.settle()
				h.wakes("t", 4)
			}
			g[gone].leaves(store.ErrEmpty)
			g[gone].expectErr(t, store.ErrEmpty)
			g = append(slices.Delete(g, gone, gone+1), h.waiter("t"))
			one := h.asks()
			h.expectClaims(one, 3, g...)
			h.answer(one, store.Popped{Jobs: jobs("t", 3)}, nil)
			for i, g := range g {
				g.expectJob(t, fmt.Sprint("t", i+1))
			}
		}
	}
}

// A poll takes jobs in one way. Callers that want them in another way are served by a poll of their own, whether they wait already or not.
func TestKindsOfATopic(t *testing.T) {
	for _, waiting := range []bool{false, true} {
		h := inHand(t)
		r := Request{Topics: []string{"t"}, N: 5, Waits: true, Kinds: []Kind{reservesLong}, Limits: []int{1}}
		a, b, c := h.waiter("t"), h.joins(r), h.waiter("t")
		if waiting {
			h.settle()
			h.wakes("t", 3)
		}
		one := h.asks()
		h.expectClaims(one, 2, a, c)
		if one.Reserves {
			t.Error("it reserves")
		}
		h.answer(one, store.Popped{Jobs: jobs("t", 2), Remaining: []int{1}}, nil)
		a.expectJob(t, "t1")
		c.expectJob(t, "t2")
		one = h.asks()
		h.expectClaims(one, 1, b)
		one.sentAt = time.Unix(5, 0)
		leases := []store.Lease{{Token: 7}}
		h.answer(one, store.Popped{Jobs: jobs("t", 1), Leases: leases}, nil)
		b.expectJob(t, "t1")
		if got := b.got.Jobs; one.Kind != reservesLong || !slices.Equal(got.Leases, leases) || got.AskedAt != one.sentAt {
			t.Errorf("%+v of %+v", got, one.Kind)
		}
	}
}

// A poll wants as many jobs as there are hints for, and enough for callers that want to know whether there is one; MaxPop at most.
func TestWantedOfATopic(t *testing.T) {
	h := inHand(t)
	all := h.waiters("t", store.MaxPop+10)
	for _, some := range [][]*guest{all[:store.MaxPop], slices.Concat(all[:store.MaxPop-10], all[store.MaxPop:])} {
		one := h.asks()
		h.expectClaims(one, len(some), some...)
		h.answer(one, store.Popped{Registered: true}, nil)
	}
	for _, ready := range []int{1, 3} {
		h.wakes("t", ready)
		one := h.asks()
		h.expectClaims(one, ready, all[:ready]...)
		h.answer(one, store.Popped{Registered: true}, nil)
	}
	h.wakes("t", 3)
	g := h.asker("t")
	h.expectClaims(h.asks(), store.MaxPop, append(slices.Clone(all[:store.MaxPop-1]), g)...)
	var wide []*guest
	for _, n := range []int{store.MaxPop - 1, store.MaxPop, 1} {
		wide = append(wide, h.joins(Request{Topics: []string{"u"}, N: n, Waits: true}))
	}
	h.expectClaims(h.asks(), store.MaxPop, wide[:2]...)

	r := Request{Topics: []string{"v"}, N: 3, Waits: true} // each gets all jobs up to its limit
	several := []*guest{h.joins(r), h.joins(r), h.joins(r)}
	one := h.asks()
	h.expectClaims(one, 9, several...)
	h.answer(one, store.Popped{Jobs: jobs("v", 5), Leases: make([]store.Lease, 5)}, nil)
	for i, g := range several[:2] {
		if got := g.got.Jobs; len(got.Jobs) != 3-i || len(got.Leases) != 3-i || got.Jobs[0].ID != fmt.Sprint("v", 3*i+1) {
			t.Errorf("%+v", got)
		}
	}
	several[2].expectWaits(t)
}

// A caller that does not wait learns that there is no job from a poll sent after it arrived. It does not overtake callers that wait.
func TestPollingBehindOthers(t *testing.T) {
	h := inHand(t)
	ahead := h.waiter("t")
	first := h.asks()
	g := h.asker("t")
	h.answer(first, store.Popped{}, nil) // sent before it arrived
	g.expectWaits(t)
	one := h.asks()
	h.expectClaims(one, 2, ahead, g)
	h.answer(one, store.Popped{Jobs: jobs("t", 1)}, nil)
	ahead.expectJob(t, "t1")
	g.expectErr(t, store.ErrEmpty)
	for _, err := range []error{nil, errBroken} { // behind as many as one poll serves
		others := h.waiters("u", store.MaxPop)
		g = h.asker("u")
		one = h.asks()
		h.expectClaims(one, store.MaxPop, others...)
		h.answer(one, store.Popped{Jobs: jobs("u", store.MaxPop)}, err)
		g.expectWaits(t)
		one = h.asks()
		h.expectClaims(one, 1, g)
		h.answer(one, store.Popped{Jobs: jobs("u", 1)}, nil)
		g.expectJob(t, "u1")
	}
	g = h.asker("v")
	h.answer(h.asks(), store.Popped{More: true, Registered: true}, nil) // stopped early: there may be a job
	g.expectWaits(t)
	h.answer(h.asks(), store.Popped{}, nil)
	g.expectErr(t, store.ErrEmpty)
}

// A batch has few polls. Together they want about as many jobs as a single pop may take, because Redis may run a whole batch without a break.
func TestBatchesAreBounded(t *testing.T) {
	for _, c := range []struct {
		wants    []int // one caller and topic each
		together []int
	}{
		{slices.Repeat([]int{1}, 2*maxTogether+1), []int{maxTogether, maxTogether, 1}},
		{[]int{store.MaxPop, 1, 1}, []int{1, 2}},
		{[]int{100, 100, 100, 100}, []int{3, 1}},
		{[]int{1, store.MaxPop, 1}, []int{2, 1}},
	} {
		h := inHand(t)
		for i, n := range c.wants {
			h.joins(Request{Topics: []string{fmt.Sprint(i)}, N: n, Waits: true})
		}
		var got []int
		for h.Waiting() {
			callers, _ := h.Next()
			got = append(got, callers)
		}
		if !slices.Equal(got, c.together) {
			t.Errorf("%v: %v go together, want %v", c.wants, got, c.together)
		}
	}
}

// An unused wake-up is passed on with the next batch, or with a batch of its own. Without a connection the callers get the reason.
func TestPassingOn(t *testing.T) {
	h := inHand(t)
	h.wakes("t", 1)
	h.wakes("u", 1)
	if n, _ := h.Next(); n != 2 || h.Waiting() {
		t.Errorf("%d are on their way, more wait: %v", n, h.Waiting())
	}
	g, gone := h.waiter("t"), h.waiter("v")
	gone.leaves(context.Canceled)
	h.wakes("u", 1)
	n, call := h.Next()
	if call(nil, errBroken); n != 2 || h.Waiting() {
		t.Errorf("%d are on their way, more wait: %v", n, h.Waiting())
	}
	g.expectErr(t, errBroken)
}

// A caller of several topics polls for itself, in the order of its topics. Each poll has topics that are taken in one way, and not too many.
func TestSeveralTopics(t *testing.T) {
	other, pop := Kind{Reserves: true, Reservation: store.Reservation{MaxAttempts: 3}}, Kind{}
	many := make([]string, 2*maxTopics+1)
	for i := range many {
		many[i] = fmt.Sprint("t", i)
	}
	five := []string{"a", "b", "c", "d", "e"}
	for _, c := range []struct {
		topics []string
		kinds  []Kind
		want   [][]string
	}{
		{five, nil, [][]string{five}},
		{five, []Kind{reserves, reserves, pop, reserves, other}, [][]string{{"a", "b"}, {"c"}, {"d"}, {"e"}}},
		{many[:maxTopics], nil, [][]string{many[:maxTopics]}},
		{many, nil, [][]string{many[:maxTopics], many[maxTopics : 2*maxTopics], many[2*maxTopics:]}},
		{[]string{"b", "a", "a"}, nil, [][]string{{"b", "a"}}},
	} {
		for _, waits := range []bool{true, false} {
			h := inHand(t)
			g := h.joins(Request{Topics: c.topics, N: 1, Waits: waits, Kinds: c.kinds})
			for _, want := range c.want {
				g.expectWaits(t)
				one := h.expectAsks("in order", want...)
				h.expectClaims(one, 1, g)
				if kind := *g.kind(slices.Index(c.topics, want[0])); one.Kind != kind {
					t.Errorf("the poll of %q is of the kind %+v, want %+v", want, one.Kind, kind)
				}
				h.answer(one, store.Popped{}, nil)
			}
			if h.asks() != nil {
				t.Error("it polls once more")
			}
			if waits {
				g.expectWaits(t)
				if g.lastErr != nil {
					t.Errorf("it knows that there is no job, and has the error %v", g.lastErr)
				}
			} else {
				g.expectErr(t, store.ErrEmpty)
			}
		}
	}
}

// A job of the first topics ends the polling. So does an error, which a waiting caller tolerates if it is temporary.
func TestSeveralTopicsEndEarly(t *testing.T) {
	for _, c := range []struct {
		name  string
		waits bool
		reply store.Popped
		err   error
		then  func(t *testing.T, g *guest)
	}{
		{"a job", true, store.Popped{Jobs: jobs("a", 1)}, nil, func(t *testing.T, g *guest) { g.expectJob(t, "a1") }},
		{"a temporary error", false, store.Popped{}, errCut, func(t *testing.T, g *guest) { g.expectErr(t, errCut) }},
		{"an error", true, store.Popped{}, errBroken, func(t *testing.T, g *guest) { g.expectErr(t, errBroken) }},
		{"a temporary error, and it waits", true, store.Popped{}, errCut, func(t *testing.T, g *guest) {
			if g.expectWaits(t); g.lastErr != errCut {
				t.Errorf("it knows of %v", g.lastErr)
			}
			g.h.wakes("b", 1)
			g.h.answer(g.h.expectAsks("the other topic", "b"), store.Popped{Jobs: jobs("b", 1)}, nil)
			g.expectJob(t, "b1")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := inHand(t)
			g := h.joins(Request{Topics: []string{"a", "b"}, N: 5, Waits: c.waits, Kinds: []Kind{{}, reserves}})
			h.answer(h.asks(), c.reply, c.err)
			if h.asks() != nil {
				t.Error("it polls the other topic")
			}
			c.then(t, g)
		})
	}
	h := inHand(t)
	g := h.waiter("a", "b")
	h.answer(h.asks(), store.Popped{More: true}, nil) // stopped early: there may be a job
	g.expectWaits(t)
	h.expectAsks("what was not polled to the end", "a", "b")
}

// Limits apply per topic and in total.
func TestLimits(t *testing.T) {
	h := inHand(t)
	g := h.joins(Request{Topics: []string{"a", "b", "c"}, N: 4, Waits: true, Limits: []int{1, 3, 9}})
	one := h.expectAsks("all", "a", "b", "c")
	if one.N != 4 || !slices.Equal(one.Limits, []int{1, 3, 4}) {
		t.Fatalf("it is for %d, %v", one.N, one.Limits)
	}
	h.answer(one, store.Popped{Registered: true}, nil)
	h.wakes("b", 9)
	one = h.expectAsks("one of them", "b")
	h.expectClaims(one, 3, g)
	h.answer(one, store.Popped{Jobs: jobs("b", 3), Remaining: []int{6}}, nil)
	if got := g.got.Jobs.Jobs; len(got) != 3 {
		t.Errorf("got %+v", got)
	}
	one = inHand(t).joins(Request{Topics: []string{"a", "b"}, N: 2 * store.MaxPop, Limits: []int{1, 2 * store.MaxPop}}).h.asks()
	if one.N != store.MaxPop || !slices.Equal(one.Limits, []int{1, store.MaxPop}) {
		t.Errorf("it is for %d, %v", one.N, one.Limits)
	}
}

// After a poll of several topics, those before the job are known to be empty. Those behind it stay unknown if the poll wanted no more jobs.
func TestFactsOfSeveral(t *testing.T) {
	empty := "registered"
	for _, c := range []struct {
		name   string
		n      int
		limits []int
		popped store.Popped
		want   []string // of a, b, c
	}{
		{"none", 1, nil, store.Popped{Registered: true}, []string{empty, empty, empty}},
		{"none, and not registered", 1, nil, store.Popped{}, []string{"", "", ""}},
		{"the second has one", 1, nil, store.Popped{Registered: true, Jobs: jobs("b", 1)}, []string{empty, empty, ""}},
		{"the second has more", 1, nil, store.Popped{Registered: true, Jobs: jobs("b", 1), Remaining: []int{0, 2, 0}}, []string{empty, "2 due", ""}},
		{"fewer than were wanted", 3, nil, store.Popped{Registered: true, Jobs: slices.Concat(jobs("a", 1), jobs("c", 1))}, []string{empty, empty, empty}},
		{"as many as a limit", 3, []int{1, 3, 3}, store.Popped{Registered: true, Jobs: jobs("a", 1), Remaining: []int{4, 0, 0}}, []string{"4 due", empty, empty}},
		{"all from two", 3, nil, store.Popped{Registered: true, Jobs: slices.Concat(jobs("a", 1), jobs("b", 2)), Remaining: []int{0, -1, 0}}, []string{empty, "", ""}},
		{"stopped early", 3, nil, store.Popped{Registered: true, More: true, Jobs: jobs("b", 1)}, []string{"1 due", "1 due", "1 due"}},
	} {
		h := inHand(t)
		for _, topic := range []string{"a", "b", "c"} { // others wait, too
			h.joins(Request{Topics: []string{topic}, N: 1, Waits: true, Kind: reservesLong})
			h.answer(h.asks(), store.Popped{}, errCut)
		}
		h.joins(Request{Topics: []string{"a", "b", "c"}, N: c.n, Limits: c.limits})
		one := h.asks()
		one.Always = true
		h.answer(one, c.popped, nil)
		for i, topic := range []string{"a", "b", "c"} {
			h.expectFacts(c.name, topic, c.want[i])
		}
	}
}

// A caller that waits does not poll topics that are known to be empty, in whatever way it takes jobs. It polls its other topics.
func TestJoiningRegisteredTopics(t *testing.T) {
	h := inHand(t)
	h.registered("t", "u")
	g := h.waiter("t")
	if h.reserver("t"); h.asks() != nil || g.lastErr != nil {
		t.Errorf("it polls, or would say %v", g.lastErr)
	}
	g.leaves(store.ErrEmpty)
	g.expectErr(t, store.ErrEmpty)
	if h.waiter("u", "t"); h.asks() != nil {
		t.Error("one of two topics polls")
	}
	h.waiter("t", "new", "u")
	h.expectAsks("one that is not known", "new")
	g = h.asker("u", "t")
	h.answer(h.expectAsks("one that does not wait", "u", "t"), store.Popped{}, nil)
	g.expectErr(t, store.ErrEmpty)
}

// cut is a connection that loses all replies.
type cut struct{ redis.Conn }

func (cut) Do(string, ...any) (any, error)                         { return nil, errCut }
func (cut) Send(string, ...any) error                              { return nil }
func (cut) Flush() error                                           { return nil }
func (cut) Receive() (any, error)                                  { return nil, errCut }
func (cut) ReceiveContext(context.Context) (any, error)            { return nil, errCut }
func (cut) DoContext(context.Context, string, ...any) (any, error) { return nil, errCut }
func (cut) Err() error                                             { return errCut }
func (cut) Close() error                                           { return nil }

// A pop whose reply is lost may have lost as many jobs as it wanted. A reserved job is not lost.
func TestLostReplies(t *testing.T) {
	for _, k := range []Kind{{}, reserves} {
		h := inHand(t)
		h.store = store.New(&redis.Pool{Dial: func() (redis.Conn, error) { return cut{}, nil }}, store.DefaultPrefix)
		a, b := h.joins(Request{Topics: []string{"t"}, N: 200, Kind: k}), h.joins(Request{Topics: []string{"t"}, N: 100, Kind: k})
		_, call := h.Next()
		call(redistest.Must(h.store.Pipeline(t.Context())), nil)
		want := store.MaxPop
		if k.Reserves {
			want = 0
		}
		for _, g := range []*guest{a, b} {
			if g.expectErr(t, errCut); errors.Is(g.got.err, ErrLost) == k.Reserves || h.lost != want {
				t.Errorf("%+v: %v, %d lost", k, g.got.err, h.lost)
			}
		}
	}
}
