package wait

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

var (
	reserves     = Kind{Reserves: true}
	reservesLong = Kind{Reserves: true, Reservation: store.Reservation{Lease: time.Hour}}
)

// reserver is a waiter that reserves, so that limits apply to it.
func (h *hand) reserver(topics ...string) *guest {
	h.t.Helper()
	return h.joins(Request{Topics: topics, N: 1, Waits: true, Kind: reserves})
}

// throttled is a reply that throttles topics for the given times, 0 for none.
func throttled(d ...time.Duration) store.Popped {
	return store.Popped{Registered: true, Throttled: d}
}

// notRegistered returns the reply without a registration.
func notRegistered(p store.Popped) store.Popped {
	p.Registered = false
	return p
}

// known has two waiters of a topic, of different kinds, so that a poll for one leaves the other.
type known struct {
	*hand
	one, two *guest
}

// beginnings are four ways to know something about a topic, in the order of the columns of the tables.
var beginnings = []struct {
	name  string
	reply store.Popped
	err   error
	woken int
	want  string
}{
	{"unknown", store.Popped{}, errCut, 0, ""},
	{"hinted", store.Popped{Registered: true}, nil, 2, "2 told due"},
	{"registered", store.Popped{Registered: true}, nil, 0, "registered"},
	{"throttled", throttled(store.Woken), nil, 0, "throttled"},
}

func begin(t *testing.T, i int) *known {
	b := beginnings[i]
	k := &known{hand: inHand(t)}
	k.one = k.reserver("t")
	k.answer(k.asks(), b.reply, b.err)
	k.two = k.joins(Request{Topics: []string{"t"}, N: 1, Waits: true, Kind: reservesLong})
	if b.err != nil {
		k.answer(k.asks(), b.reply, b.err)
	}
	if b.woken > 0 {
		k.wakes("t", b.woken)
	}
	k.expectFacts("at the beginning", "t", b.want)
	return k
}

// polls returns a poll for a caller that does not wait.
func (k *known) polls() *poll {
	k.joins(Request{Topics: []string{"t"}, N: 1, Kind: reserves})
	return k.asks()
}

func (k *known) expect(t *testing.T, what, want string) {
	t.Helper()
	got := k.facts("t")
	for range k.passed() {
		got += " passed"
	}
	if got != want {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// What we know about a topic after each event: if no poll is in flight, and if one is, whose reply follows. That there are no jobs and that we are
// registered, or an error. What came after the poll was sent is newer.
func TestFacts(t *testing.T) {
	for _, c := range []struct {
		event               string
		do                  func(k *known)
		idle, empty, failed [4]string // after unknown, hinted, registered and throttled
	}{
		{"woken", func(k *known) { k.wakes("t", 1) },
			[4]string{"1 told due", "2 told due", "1 told due", "1 told due"},
			[4]string{"1 told due", "1 told due", "1 told due", "1 told due"},
			[4]string{"1 told due", "1 told due", "1 told due", "1 told due"}},
		{"a check finds jobs", func(k *known) { k.check(true, map[string]int{"t": 5}) },
			[4]string{"5 checked due", "5 told checked due", "5 checked due", "throttled"},
			[4]string{"5 checked due", "5 told checked due", "5 checked due", "registered"},
			[4]string{"5 checked due", "5 told checked due", "5 checked due", "throttled"}},
		{"a check finds none, and registers us", func(k *known) { k.check(true, nil) },
			[4]string{"registered", "registered", "registered", "registered"},
			[4]string{"registered", "registered", "registered", "registered"},
			[4]string{"registered", "registered", "registered", "registered"}},
		{"a check finds none, and can't register us", func(k *known) { k.check(false, nil) },
			[4]string{"", "2 told due", "registered", "throttled"},
			[4]string{"registered", "registered", "registered", "registered"},
			[4]string{"", "told", "registered", "throttled"}},
		{"the subscription ends", func(k *known) { k.closes() },
			[4]string{"", "2 told due", "", ""},
			[4]string{"", "", "", ""},
			[4]string{"", "told", "", ""}},
		{"the last caller leaves", func(k *known) { k.one.leaves(store.ErrEmpty); k.two.leaves(store.ErrEmpty) },
			[4]string{"dropped", "dropped passed", "registered", "throttled"},
			[4]string{"registered", "registered", "registered", "registered"},
			[4]string{"dropped", "dropped passed", "registered", "throttled"}},
		{"the throttle is over", func(k *known) { time.Sleep(2 * throttledFor); synctest.Wait() },
			[4]string{"", "2 told due", "registered", "250 due"},
			[4]string{"registered", "registered", "registered", "registered"},
			[4]string{"", "told", "registered", ""}},
	} {
		for i, b := range beginnings {
			synctest.Test(t, func(t *testing.T) {
				k := begin(t, i)
				c.do(k)
				k.expect(t, b.name+", "+c.event, c.idle[i])
				for _, r := range []struct {
					err  error
					want string
				}{{nil, c.empty[i]}, {errCut, c.failed[i]}} {
					k = begin(t, i)
					one := k.polls()
					c.do(k)
					k.answer(one, store.Popped{Registered: true}, r.err)
					k.expect(t, fmt.Sprintf("%s, polling, %s, replied %v", b.name, c.event, r.err), r.want)
				}
			})
		}
	}
}

// What we know about a topic after a poll's reply.
func TestFactsOfReplies(t *testing.T) {
	all := func(left int) func(n int) store.Popped {
		return func(n int) store.Popped {
			return store.Popped{Jobs: jobs("t", n), Remaining: []int{left}, Registered: true}
		}
	}
	fixed := func(p store.Popped) func(int) store.Popped { return func(int) store.Popped { return p } }
	for _, c := range []struct {
		reply string
		of    func(n int) store.Popped // to a poll for n jobs
		err   error
		want  [4]string // after unknown, hinted, registered and throttled
	}{
		{"an error", fixed(store.Popped{}), errCut, [4]string{"", "told", "registered", "throttled"}},
		{"none, and we are registered", fixed(store.Popped{Registered: true}), nil, [4]string{"registered", "registered", "registered", "registered"}},
		{"none, and we are not registered", fixed(store.Popped{}), nil, [4]string{"", "", "", "throttled"}},
		{"all, some are left", all(3), nil, [4]string{"3 due", "3 due", "3 due", "3 throttled"}},
		{"all, none are left", all(0), nil, [4]string{"registered", "registered", "registered", "registered"}},
		{"all, it is unknown what is left", all(-1), nil, [4]string{"", "", "", "throttled"}},
		{"stopped early", fixed(store.Popped{Registered: true, More: true}), nil, [4]string{"1 due", "1 due", "1 due", "1 throttled due"}},
		{"stopped early, some are left", func(int) store.Popped { return store.Popped{Jobs: jobs("t", 1), Remaining: []int{4}, More: true} }, nil, [4]string{"4 due", "4 due", "4 due", "4 throttled"}},
		{"throttled", fixed(throttled(store.Woken)), nil, [4]string{"1 throttled", "1 throttled", "1 throttled", "1 throttled"}},
		{"throttled, and we are not registered", fixed(notRegistered(throttled(store.Woken))), nil, [4]string{"", "", "", "throttled"}},
		{"throttled for a second, and we are not registered", fixed(notRegistered(throttled(time.Second))), nil, [4]string{"1 throttled", "1 throttled", "1 throttled", "1 throttled"}},
	} {
		for i, b := range beginnings {
			synctest.Test(t, func(t *testing.T) {
				k := begin(t, i)
				one := k.polls()
				k.answer(one, c.of(one.N), c.err)
				k.expect(t, b.name+", "+c.reply, c.want[i])
			})
		}
	}
}

// A throttled topic is polled again at the time given by the limit, or when a wake-up may have been lost, and not earlier.
func TestThrottledTopics(t *testing.T) {
	for name, c := range map[string]struct {
		told       store.Popped
		soon, late time.Duration
	}{
		"a while":                   {throttled(300 * time.Millisecond), 299 * time.Millisecond, 300 * time.Millisecond},
		"until it is woken":         {throttled(store.Woken), throttledFor/2 - 1, throttledFor * 3 / 2},
		"for long":                  {throttled(time.Hour), throttledFor/2 - 1, throttledFor * 3 / 2},
		"a while, not registered":   {notRegistered(throttled(300 * time.Millisecond)), 299 * time.Millisecond, 300 * time.Millisecond},
		"for long, not registered":  {notRegistered(throttled(time.Hour)), checkEvery - 1, checkEvery},
		"until then, among several": {throttled(300*time.Millisecond, store.Woken), 299 * time.Millisecond, 300 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := inHand(t)
				g := h.reserver([]string{"t", "u"}[:len(c.told.Throttled)]...)
				h.answer(h.asks(), c.told, nil)
				h.joins(Request{Topics: []string{"t"}, N: 1, Waits: true, Kinds: []Kind{reservesLong}}) // a later caller sends no poll
				time.Sleep(c.soon)
				synctest.Wait()
				if h.asks() != nil {
					t.Error("it is polled too early")
				}
				time.Sleep(c.late - c.soon)
				synctest.Wait()
				h.answer(h.asks(), store.Popped{Registered: true, Jobs: jobs("t", 1)}, nil)
				g.expectJob(t, "t1")
			})
		})
	}
}

// A limit throttles callers that reserve. Those that pop, whether they wait behind them or not, are served, and so is the throttled one once a wake-up
// says that the limit allows more. One that does not wait learns from Redis whether it does.
func TestThrottledBesidePops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHand(t)
		reserves := h.reserver("t")
		reserve := h.asks()
		pops, asks := h.waiter("t"), h.joins(Request{Topics: []string{"t"}, N: 1})
		pop := h.asks()
		h.answer(pop, store.Popped{Registered: true}, nil)
		asks.expectErr(t, store.ErrEmpty)
		h.answer(reserve, throttled(store.Woken), nil) // the script has found jobs
		pop = h.asks()
		if pop == nil || pop.Reserves || pop.N != 1 || pop.claims[0].Caller != pops.Caller {
			t.Fatalf("polled is %+v, want a pop", pop)
		}
		h.answer(pop, store.Popped{Registered: true, Jobs: jobs("t", 1), Remaining: []int{1}}, nil)
		pops.expectJob(t, "t1")
		if next := h.asks(); next != nil {
			t.Errorf("polled is %+v, as if it were not throttled", next)
		}
		now := h.joins(Request{Topics: []string{"t"}, N: 1, Kind: reserves.Kind})
		if reserve = h.asks(); len(reserve.claims) != 1 || reserve.claims[0].Caller != now.Caller {
			t.Errorf("%+v", reserve)
		}
		h.answer(reserve, throttled(store.Woken), nil)
		now.expectErr(t, store.ErrEmpty)
		if h.asks() != nil {
			t.Error("it is polled for the one that waits, too")
		}
		later := h.waiter("t")
		h.answer(h.asks(), store.Popped{Registered: true, Jobs: jobs("t", 1), Remaining: []int{2}}, nil)
		later.expectJob(t, "t1")
		reserves.expectWaits(t)
		h.wakes("t", 1)
		h.answer(h.asks(), store.Popped{Registered: true, Jobs: jobs("t", 1)}, nil)
		reserves.expectJob(t, "t1")
		time.Sleep(2 * throttledFor)
		synctest.Wait()
		if h.asks() != nil {
			t.Error("it is polled when its time would have been over")
		}
	})
}

// Throttled topics among several are not polled, except for a caller that does not wait.
func TestThrottledAmongSeveral(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHand(t)
		h.reserver("t", "u")
		h.answer(h.asks(), throttled(store.Woken, 0), nil)
		h.expectFacts("one of two is throttled", "u", "registered")
		h.reserver("t", "new")
		h.expectAsks("one that waits", "new")
		h.joins(Request{Topics: []string{"t", "u"}, N: 1, Kind: reserves})
		h.expectAsks("one that does not wait", "t", "u")
	})
}

// When a subscription ends, the registrations of topics are removed, throttled or not, also those without callers.
func TestRegistrationsAreRemoved(t *testing.T) {
	h := inHand(t)
	h.reserver("throttled")
	h.answer(h.asks(), throttled(store.Woken), nil)
	h.registered("t").leaves(store.ErrEmpty)
	h.waiter("unknown")
	h.answer(h.asks(), store.Popped{}, errCut)
	was := h.listener.close()[h.Partition]
	if slices.Sort(was); !slices.Equal(was, []string{"t", "throttled"}) {
		t.Errorf("taken out of %q", was)
	}
}

// A wake-up for a throttled topic without callers is passed on, because another client can use the slot. A wake-up after the throttling has ended is
// passed on, too.
func TestThrottledTopicIsLeft(t *testing.T) {
	for after, want := range map[time.Duration]string{0: "throttled", 2 * throttledFor: "dropped"} {
		synctest.Test(t, func(t *testing.T) {
			h := inHand(t)
			g := h.reserver("t")
			h.answer(h.asks(), throttled(store.Woken), nil)
			g.leaves(store.ErrEmpty)
			time.Sleep(after)
			synctest.Wait()
			h.expectFacts("left", "t", want)
			h.wakes("t", 1)
			h.expectPassed("the wake-up", "t")
			h.expectFacts("woken", "t", "dropped")
		})
	}
}

// Topics without callers are kept for a while, because the client may still be woken for them, and then dropped. A wake-up for such a topic is passed
// on.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := inHand(t)
		g := map[string]*guest{}
		for _, topic := range []string{"waited", "left", "left lately", "polling"} {
			g[topic] = h.registered(topic)
		}
		h.wakes("polling", 1)
		one := h.asks()
		g["left"].leaves(store.ErrEmpty)
		g["polling"].leaves(store.ErrEmpty)
		time.Sleep(lingerFor)
		g["left lately"].leaves(store.ErrEmpty)
		h.listener.forget(lingerFor)
		for topic, want := range map[string]string{"waited": "registered", "left": "dropped", "left lately": "registered", "polling": "told polling"} {
			h.expectFacts("after a while", topic, want)
		}
		h.wakes("left", 1)
		h.wakes("left lately", 1)
		h.expectPassed("dropped, and without callers", "left", "left lately")
		h.expectFacts("passed on", "left lately", "dropped")
		h.answer(one, store.Popped{Registered: true}, nil)
		h.expectFacts("without callers after a poll", "polling", "registered")
	})
}
