package wait

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A batch contains few polls. Together they want about as many jobs as a single pop may take, because
// Redis may run a whole batch without a break.
func TestTakesTogetherAreBounded(t *testing.T) {
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
		for h.s.Waiting() {
			callers, _ := h.s.Next()
			got = append(got, callers)
		}
		if !slices.Equal(got, c.together) {
			t.Errorf("%v: %v go together, want %v", c.wants, got, c.together)
		}
	}
}

// An unused wake-up is passed on with the next batch, or with a batch of its own.
func TestPassingOnIsARoundTrip(t *testing.T) {
	h := inHand(t)
	if h.s.Waiting() {
		t.Error("there is something to send")
	}
	h.s.wake("t", 1)
	h.s.wake("u", 1)
	if !h.s.Waiting() {
		t.Fatal("there is nothing to send")
	}
	if n, _ := h.s.Next(); n != 2 || h.s.Waiting() {
		t.Errorf("%d are on their way, more wait: %v", n, h.s.Waiting())
	}
	g := h.waiter("t")
	_, call := h.s.Next()
	call(nil, errBroken) // no connection
	g.expectErr(t, errBroken)
}

// Checks run every second at first and after a check has found a job. They become rare once they have found
// nothing for a long time, the client is registered everywhere, and a running server wakes it. Without a
// subscription they are frequent.
func TestPlan(t *testing.T) {
	long := calmAfter + time.Second
	for _, c := range []struct {
		name     string
		found    time.Duration // time since then
		served   bool
		isListed bool
		state    listenerState
		want     time.Duration
	}{
		{"lately", calmAfter - time.Second, true, true, subscribed, checkEvery},
		{"long ago", long, true, true, subscribed, slowCheck},
		{"no server", long, false, true, subscribed, checkEvery},
		{"not isListed everywhere", long, true, false, subscribed, checkEvery},
		{"refused", long, true, true, refused, pollEvery},
		{"refused lately", 0, false, false, refused, pollEvery},
	} {
		h := inHand(t)
		h.waiter("t")
		h.waiter("u")
		h.settle()
		e := h.s.listener
		if !c.isListed {
			h.s.queues["u"].on(unheard, 0)
		}
		e.state, e.lastHit = c.state, time.Now().Add(-c.found)
		past, far, soon := time.Now().Add(-time.Second), time.Now().Add(time.Hour), time.Now().Add(10*time.Millisecond)
		for _, next := range []time.Time{past, far, soon} {
			k := &checks{listener: e, next: next, served: c.served, checked: time.Now()}
			before := time.Now()
			k.plan()
			if next == soon {
				if k.next != soon {
					t.Errorf("%s: a check that is due soon is put off by %v", c.name, k.next.Sub(soon))
				}
			} else if k.next.Before(before.Add(c.want)) || k.next.After(time.Now().Add(c.want)) {
				t.Errorf("%s: the next check is in %v, want %v", c.name, k.next.Sub(before), c.want)
			}
		}
	}
	h := inHand(t)
	h.s.listener.lastHit = time.Now().Add(-long)
	k := &checks{listener: h.s.listener, served: true, checked: time.Now().Add(-2 * time.Minute)}
	if k.plan(); k.served || time.Since(k.checked) > time.Minute {
		t.Error("whether a server runs is not asked again; Redis is away")
	}
}

// Whether a server runs is known by the first partition's node. If that hangs, others do not wait for it, and ask again later.
func TestFirstPartitionHangs(t *testing.T) {
	t.Parallel()
	h := inHand(t)
	h.partitions[0].store = store.New(&redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}}, store.DefaultPrefix)
	k := &checks{listener: h.s.listener, began: time.Now().Add(-time.Hour)}
	planned := make(chan bool)
	go func() {
		k.plan()
		close(planned)
	}()
	select {
	case <-planned:
		if k.served || time.Until(k.checked) < servedEvery/2 {
			t.Errorf("it was asked at %v, and is served: %v", k.checked, k.served)
		}
	case <-time.After(redistest.HangBound):
		t.Fatal("the checks wait for it")
	}
}

// Checks become frequent again when a check finds a job and a poll then reserves it. A job that a
// message announced in the meantime does not count, nor does a job that another client took first.
func TestFound(t *testing.T) {
	for _, c := range []struct {
		name        string
		told, taken bool
		want        bool
	}{
		{"found and taken", false, true, true},
		{"told meanwhile", true, true, false},
		{"taken by another", false, false, false},
	} {
		h := inHand(t)
		h.waiter("t")
		h.settle()
		h.s.listener.lastHit = time.Now().Add(-time.Hour)
		h.check(true, map[string]int{"t": 1})
		if c.told {
			h.s.wake("t", 1)
		}
		var popped store.Popped
		if c.taken {
			popped.Jobs = jobs("t", 1)
		}
		h.answer(h.asks(), popped, nil)
		if got := time.Since(h.s.listener.lastHit) < time.Minute; got != c.want {
			t.Errorf("%s: found lately %v", c.name, got)
		}
		if !c.taken { // a later message does not count for this check
			h.s.wake("t", 1)
			h.answer(h.asks(), store.Popped{Jobs: jobs("t", 1)}, nil)
			if time.Since(h.s.listener.lastHit) < time.Minute {
				t.Errorf("%s: what was told counts as found", c.name)
			}
		}
	}
}

// Checks of many Clients are spread over one second.
func TestChecksAreSpread(t *testing.T) {
	h := inHand(t)
	var firstHalf int
	for range 100 {
		h.s.listener.renew = true
		k := newChecks(h.s.listener)
		in := time.Until(k.next)
		if in > checkEvery || in < -time.Second || h.s.listener.renew || time.Since(h.s.listener.lastHit) > time.Minute || time.Since(k.asked) > time.Minute {
			t.Fatalf("the first check is in %v; %+v", in, k)
		}
		if in < checkEvery/2 {
			firstHalf++
		}
	}
	if firstHalf < 10 || firstHalf > 90 {
		t.Errorf("%d of 100 are in the first half of the second", firstHalf)
	}
}

// With a subscription, all queues with callers are checked together. Without a subscription, they take turns
// within checkEvery.
func TestQueuesThatAreDue(t *testing.T) {
	for _, c := range []struct {
		queues int
		state  listenerState
		turns  []int
	}{
		{3, subscribed, []int{3, 3}},
		{3, refused, []int{3, 3}},
		{pollAtOnce + 3, subscribed, []int{pollAtOnce + 3, pollAtOnce + 3}},
		{pollAtOnce + 3, refused, []int{pollAtOnce, 3, pollAtOnce, 3}},
		{30 * pollAtOnce, refused, append(slices.Repeat([]int{376}, 19), 30*pollAtOnce-19*376, 376)},
	} {
		h := inHand(t)
		for n := range c.queues {
			h.waiter(fmt.Sprint(n))
		}
		h.settle()
		gone := h.waiter("gone")
		h.settle()
		h.leave(gone.caller, store.ErrEmpty)
		h.s.queues["gone"].left = time.Now().Add(-lingerFor)
		h.s.listener.state = c.state
		k := newChecks(h.s.listener)
		var got []int
		seen := map[*waitQueue]bool{}
		for range c.turns {
			queues := k.due()
			got = append(got, len(queues))
			for _, l := range queues {
				seen[l] = true
			}
		}
		if !slices.Equal(got, c.turns) || len(seen) != c.queues || h.s.queues["gone"] != nil {
			t.Errorf("%d queues, state %d: %v, want %v; %d in all", c.queues, c.state, got, c.turns, len(seen))
		}
	}
}

// A refused subscription is retried after a while, or when the Client requests it.
func TestSubscribeAgain(t *testing.T) {
	h := inHand(t)
	e := h.s.listener
	k := newChecks(e)
	e.state, k.asked = subscribed, time.Now().Add(-2*subscribeAgain)
	if k.subscribes() {
		t.Error("though it is subscribed")
	}
	e.state = refused
	if !k.subscribes() || k.subscribes() {
		t.Error("not once, when it was long ago")
	}
	h.ForTests().SubscribeAgain()
	if !k.subscribes() || k.subscribes() {
		t.Error("not once, when it is told to")
	}
}

// A listener runs while callers wait and lingers briefly. Then all its state is dropped.
func TestListenerLingers(t *testing.T) {
	h := inHand(t)
	g := h.waiter("t")
	h.settle()
	e := h.s.listener
	e.left = time.Now().Add(-time.Hour)
	if !e.isWanted() || !e.left.IsZero() || e.ends() {
		t.Error("it ends though somebody waits")
	}
	h.leave(g.caller, store.ErrEmpty)
	if !e.isWanted() || e.left.IsZero() || len(h.s.queues) != 1 {
		t.Error("it ends at once")
	}
	h.joins(Request{Topics: []string{"u"}, N: 1}) // does not wait
	e.left = time.Now().Add(-lingerFor)
	if !e.ends() || e.isWanted() || e.running || !e.left.IsZero() || h.s.queues["t"] != nil {
		t.Error("it lingers on, or keeps what it knew")
	}
	h.waiter("t")
	if e.running = true; !e.isWanted() {
		t.Error("it ends though somebody waits again")
	}
	h.Renew()
	if !e.ends() {
		t.Error("it keeps a connection that is to be replaced")
	}
	h.closed = true
	if e.isWanted() {
		t.Error("it goes on after Close")
	}
}

// Many queues of several partitions take turns each second, so that all are checked within slowCheck. Queues without a
// registration are checked every time.
func TestManyQueuesHaveTheirTurns(t *testing.T) {
	h := inHands(t, 2)
	for n := range checkAtOnce/2 + 100 {
		h.waiter(fmt.Sprint(n))
	}
	h.run(map[readyQueue]int{})
	e := h.s.listener
	e.lastHit = time.Now().Add(-2 * calmAfter)
	k := &checks{listener: e, served: true, checked: time.Now()}
	seen := map[*waitQueue]bool{}
	turn := func() (queues []*waitQueue) {
		queues = k.due()
		for _, q := range queues {
			seen[q] = true
		}
		k.next = time.Time{}
		if k.plan(); time.Until(k.next) > checkEvery {
			t.Errorf("the next part has its turn in %v", time.Until(k.next))
		}
		return queues
	}
	if first, second := len(turn()), len(turn()); first != checkAtOnce || second != 200 || len(seen) != checkAtOnce+200 {
		t.Errorf("%d and %d queues are checked, %d in all", first, second, len(seen))
	}
	lost := h.partitions[1].queues["7"]
	h.mu.Lock()
	lost.on(unheard, 0)
	h.mu.Unlock()
	for range 3 {
		queues := turn()
		if !slices.Contains(queues, lost) || !slices.IsSortedFunc(queues, func(a, b *waitQueue) int { return a.partition.index - b.partition.index }) {
			t.Error("one for which nobody wakes us is not checked, or not beside the others of its partition")
		}
	}
	few := inHands(t, 2)
	few.waiter("t")
	few.run(map[readyQueue]int{})
	if k := newChecks(few.s.listener); len(k.due()) != 2 || k.pages {
		t.Error("few queues are not checked at a time")
	}
	one := inHand(t)
	for n := range checkAtOnce + 1 {
		one.waiter(fmt.Sprint(n))
	}
	one.settle()
	if n := len(newChecks(one.s.listener).due()); n != checkAtOnce+1 {
		t.Errorf("of one partition, where a server of the original may run, %d are checked", n)
	}
}
