package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// pause pauses a topic until it is resumed.
func (b *backend) pause(t *testing.T, topic string) {
	t.Helper()
	made(t, b.Pause(topic, 0, ""))
}

func (b *backend) resume(t *testing.T, topic string, want bool) {
	t.Helper()
	was, err := b.Store.resumeAll(t.Context(), topic)
	check(t, err)
	if was != want {
		t.Errorf("the topic was paused: %v, want %v", was, want)
	}
}

func (b *backend) reserveOne(t *testing.T, topic, id string) LeaseRef {
	t.Helper()
	popped := made(t, b.Reserve(Wanted{Topics: []string{topic}, N: 1}, Reservation{Lease: time.Hour}))
	if len(popped.Jobs) != 1 || popped.Jobs[0].ID != id {
		t.Fatalf("reserved %+v, want %s", popped.Jobs, id)
	}
	return LeaseRef{Topic: topic, ID: id, Token: popped.Leases[0].Token}
}

// endsOfPauses are the ways in which a pause ends.
var endsOfPauses = map[string]func(t *testing.T, b *backend){
	"it is resumed": func(t *testing.T, b *backend) { b.resume(t, "t", true) },
	"its time is over": func(t *testing.T, b *backend) {
		b.do(t, "HSET", "delayer:paused", "t", "1 2 0 0 ")
		for at := "0"; at != ""; {
			at = made(t, b.KeepPaused(at)).Next
		}
	},
}

// onceMade needs nothing before the pause.
func onceMade(becomesReady func(t *testing.T, b *backend)) func(*testing.T, *backend) func() {
	return func(t *testing.T, b *backend) func() { return func() { becomesReady(t, b) } }
}

// byReturn returns a job that was reserved before the pause.
func byReturn(r Returned) func(*testing.T, *backend) func() {
	return func(t *testing.T, b *backend) func() {
		b.add(t, ready("a", "t"))
		mine := r // both servers run at the same time
		mine.LeaseRef = b.reserveOne(t, "t", "a")
		return func() { check(t, made(t, b.Retry([]Returned{mine}))[0]) }
	}
}

// waysToBecomeReady make job a ready while its topic is paused.
var waysToBecomeReady = []struct {
	name   string
	before func(t *testing.T, b *backend) func() // the returned function makes a ready while the topic is paused
}{
	{"move", onceMade(func(t *testing.T, b *backend) {
		b.add(t, waits("a", "t", 9))
		moved := made(t, b.Move(Batch{Topic: "t", IDs: IDs{"a"}}, time.Unix(10, 0), time.Unix(10, 0), time.Now()))
		if len(moved.IDs) != 1 || moved.CantPublish != nil {
			t.Errorf("%+v", moved)
		}
	})},
	{"push", onceMade(func(t *testing.T, b *backend) { check(t, b.push(t.Context(), jobOf("a", "t"), Due{}, kept, Replace)) })},
	{"push of several", onceMade(func(t *testing.T, b *backend) {
		terms := Terms{Lifetime: kept}
		check(t, b.pushAll(t, Delayed{jobOf("a", "t"), Due{}, terms, nil}, Delayed{jobOf("b", "t"), Due{After: time.Hour}, terms, nil}))
		check(t, errOf(b.remove(t.Context(), "b")))
	})},
	{"reschedule", func(t *testing.T, b *backend) func() {
		b.seed(t, waits("a", "t", 60*second))
		return func() { check(t, b.Reschedule(t.Context(), "a", 0)) }
	}},
	{"retry", byReturn(Returned{})},
	{"release", byReturn(Returned{Refund: true})},
	{"requeue", func(t *testing.T, b *backend) func() {
		b.add(t, ready("a", "t"))
		check(t, made(t, b.Bury([]Burial{{LeaseRef: b.reserveOne(t, "t", "a"), Reason: "why"}}))[0])
		return func() { check(t, errorOf(b.Requeue(t.Context(), []string{"a"}, time.Hour))) }
	}},
	{"an entry in another topic's queue", func(t *testing.T, b *backend) func() {
		b.add(t, content("a", "t"), entry("a", "u"))
		return func() {
			if job, _, err := b.pop(t.Context(), []string{"u"}); err != ErrEmpty {
				t.Errorf("popped %+v, %v", job, err)
			}
		}
	}},
	{"it was ready", func(t *testing.T, b *backend) func() {
		b.add(t, ready("a", "t"))
		return func() {}
	}},
}

// Jobs of a paused topic that become ready, in whatever way, are not delivered, not even to programs that do not know pauses. After a
// resume they are delivered in order.
func TestPauseHoldsWhatBecomesReady(t *testing.T) {
	for _, c := range waysToBecomeReady {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, b *backend) {
				becomesReady := c.before(t, b)
				b.add(t, ready("first", "t"))
				if c.name == "it was ready" {
					check(t, errOf(b.remove(t.Context(), "first")))
					b.add(t, ready("first", "t"))
				}
				b.pause(t, "t")
				becomesReady()
				want := []string{"first", "a"}
				if c.name == "it was ready" {
					want = []string{"a", "first"}
				}
				content := map[string]string{"a": "t body of a", "first": "t body of first"}
				b.expect(t, redistest.State{Paused: map[string][]string{"t": want}, Buckets: content})
				if entry := b.do(t, "RPOP", "delayer:ready_queue:t"); entry != nil {
					t.Errorf("who knows nothing of pauses gets %s", entry)
				}
				for _, take := range []func(Wanted) *Call[Popped]{b.Pop, func(w Wanted) *Call[Popped] { return b.Reserve(w, Reservation{Lease: time.Hour}) }} {
					popped := made(t, take(Wanted{Topics: []string{"t"}, N: 10}))
					if len(popped.Jobs) > 0 {
						t.Errorf("taken: %+v", popped.Jobs)
					}
				}
				b.resume(t, "t", true)
				b.resume(t, "t", false)
				b.expect(t, redistest.State{Ready: map[string][]string{"t": want}, Buckets: content})
				if left := b.With(t).Strings("KEYS", "delayer:*paused*"); len(left) > 0 {
					t.Errorf("%q are left", left)
				}
			})
		})
	}
}

// add adds to the data in Redis.
func (b *backend) add(t *testing.T, seeds ...[]command) {
	t.Helper()
	for _, commands := range seeds {
		for _, c := range commands {
			b.do(t, c[0].(string), c[1:]...)
		}
	}
}

// While a topic is paused, its jobs look the same in every query and can still be changed.
func TestPausedJobsAreReady(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		ctx := t.Context()
		b.seed(t, ready("a", "t"), ready("b", "t"), ready("c", "t"), ready("d", "t"), ready("e", "t"))
		b.pause(t, "t")
		job, err := b.Get(ctx, "a")
		if check(t, err); job.State != "ready" {
			t.Errorf("its state is %s", job.State)
		}
		stats, err := b.Stats(ctx, []string{"t"}, true)
		if check(t, err); stats.Topics[0].Ready != 5 || stats.Topics[0].Overdue < 0 {
			t.Errorf("%+v", stats.Topics[0])
		}
		page, err := b.Browse(ctx, Browse{Topic: "t", State: "ready", Jobs: 2, Entries: 10})
		if check(t, err); len(page.Jobs) != 2 || page.Jobs[0].ID != "a" || page.Jobs[1].ID != "b" {
			t.Errorf("%+v", page)
		}
		if removed, err := b.remove(ctx, "b"); removed == "" || err != nil {
			t.Errorf("removed: %v, %v", removed, err)
		}
		check(t, b.Reschedule(ctx, "c", time.Hour))
		check(t, b.push(ctx, Job{ID: "d", Topic: "u", Body: "new"}, Due{}, kept, Replace))
		b.do(t, "DEL", "delayer:job_bucket:a") // expired
		b.enterTopic(t, "t", 0)
		if gone, _, _ := b.sweepAll(t); !slices.Equal(gone["t"], []string{"a"}) {
			t.Errorf("gone are %q", gone)
		}
		b.expect(t, redistest.State{
			Pool: []string{"c"}, Paused: map[string][]string{"t": {"e"}}, Ready: map[string][]string{"u": {"d"}},
			Buckets: map[string]string{"c": "t body of c", "d": "u new", "e": "t body of e"},
		})
		n, err := b.ReadyCount(ctx, "t")
		if check(t, err); n != 1 {
			t.Errorf("%d are counted", n)
		}
		deleted, _, err := b.Purge(ctx, "t", 10)
		if check(t, err); deleted != 1 {
			t.Errorf("%d are purged", deleted)
		}
		b.resume(t, "t", true)
	})
}

// A pause and a throttling do not affect each other. Once over, they are no longer reported, and a pass of the server ends them.
func TestPausesTogether(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		ctx := t.Context()
		only := func() Pause {
			t.Helper()
			all, err := b.Paused(ctx)
			check(t, err)
			if len(all) != 1 {
				t.Fatalf("paused are %+v", all)
			}
			return all[0]
		}
		around := func(what string, at time.Time, d time.Duration) {
			t.Helper()
			if left := at.Sub(time.UnixMilli(int64(b.clock(t) * 1000))); left > d+time.Second || left < d-time.Minute {
				t.Errorf("%s is in %v, want %v", what, left, d)
			}
		}
		p := b.Store
		made(t, p.Throttle("t", time.Hour))
		made(t, p.Throttle("t", time.Minute)) // has no effect: it is shorter
		first := only()
		around("the end", first.End(), time.Hour)
		if !first.Since.IsZero() || first.ThrottledSince.IsZero() {
			t.Errorf("%+v", first)
		}
		made(t, p.Pause("t", 2*time.Hour, "first  note\n"))
		around("the end", only().End(), 2*time.Hour)
		made(t, p.Pause("t", 10*time.Minute, "second")) // the throttling is longer still
		second := only()
		around("its end", second.Until, 10*time.Minute)
		around("the end", second.End(), time.Hour)
		if second.Note != "second" || second.ThrottledUntil != first.ThrottledUntil {
			t.Errorf("%+v", second)
		}
		made(t, p.Pause("t", 0, "first  note\n"))
		made(t, p.Throttle("t", 3*time.Hour))
		third := only()
		around("throttled", third.ThrottledUntil, 3*time.Hour)
		if !third.End().IsZero() || third.Since != second.Since || third.Note != "first  note\n" {
			t.Errorf("%+v", third)
		}
		kept, err := b.KeepPaused("0").Do(ctx)
		if check(t, err); kept.Paused != 1 || kept.Wait >= 0 || len(kept.Ended) > 0 {
			t.Errorf("%+v", kept)
		}
		b.resume(t, "t", true)
		made(t, p.Throttle("t", time.Millisecond))
		redistest.Until(t, "it is over", func() bool {
			all, err := p.Paused(ctx)
			check(t, err)
			return len(all) == 0
		})
		b.resume(t, "t", false)
	})
}

// A server ends expired pauses, and parks jobs that a server or client without pauses made ready.
func TestKeepPaused(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		ctx := t.Context()
		keep := func(want KeptPaused) {
			t.Helper()
			kept := made(t, b.KeepPaused("0"))
			if want.Wait > 0 && kept.Wait <= want.Wait && kept.Wait > 0 {
				kept.Wait = want.Wait
			}
			if fmt.Sprint(kept) != fmt.Sprint(want) {
				t.Errorf("%+v, want %+v", kept, want)
			}
		}
		keep(KeptPaused{Wait: -time.Millisecond})
		b.seed(t, ready("a", "t"), ready("x", "u"))
		b.pause(t, "t")
		made(t, b.Pause("u", 300*time.Millisecond, ""))
		b.add(t, ready("b", "t"), ready("c", "t"), [][]command{{{"DEL", "delayer:waiters:t"}}}[0])
		keep(KeptPaused{Paused: 2, Wait: 300 * time.Millisecond})
		if state := b.state(t); fmt.Sprint(state.Paused) != "map[t:[a b c] u:[x]]" || len(state.Ready) > 0 {
			t.Errorf("%+v", state)
		}
		check(t, b.push(ctx, Job{ID: "d", Topic: "t", Body: ""}, Due{}, kept, Replace)) // paused again for programs that know pauses
		var ended []string
		redistest.Until(t, "it is over", func() bool {
			kept := made(t, b.KeepPaused("0"))
			ended = kept.Ended
			return len(ended) > 0
		})
		if !slices.Equal(ended, []string{"u"}) {
			t.Errorf("ended are %q", ended)
		}
		keep(KeptPaused{Paused: 1, Wait: -time.Millisecond})
		if state := b.state(t); fmt.Sprint(state.Paused, state.Ready) != "map[t:[a b c d]] map[u:[x]]" {
			t.Errorf("%+v", state)
		}
		b.add(t, ready("e", "t"))
		b.resume(t, "t", true)
		if state := b.state(t); fmt.Sprint(state.Paused, state.Ready) != "map[] map[t:[a b c d e] u:[x]]" {
			t.Errorf("%+v", state)
		}
		b.pause(t, "t")
		b.add(t, ready("f", "t"), ready("g", "t"), ready("h", "t"), ready("i", "t"), ready("j", "t"), ready("k", "t"))
		b.resume(t, "t", true) // more jobs than were parked
		if state := b.state(t); fmt.Sprint(state.Ready) != "map[t:[a b c d e f g h i j k] u:[x]]" {
			t.Errorf("%+v", state)
		}
	})
}

// A pause is refused as a whole, with the reason.
func TestPauseRefused(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		ctx := t.Context()
		for _, broken := range []string{"ready_queue:t", "paused_queue:t", "paused"} {
			b.seed(t, ready("a", "u"), text(broken))
			was := b.state(t)
			b.expectError(t, errOf(b.Pause("t", 0, "").Do(ctx)), "WRONGTYPE")
			b.expect(t, was)
		}
		b.seed(t, [][]command{{{"HSET", "delayer:paused", "t", "no entry"}}}...)
		all, err := b.Paused(ctx)
		if check(t, err); len(all) > 0 {
			t.Errorf("%+v", all)
		}
		b.add(t, ready("a", "t"))
		b.pause(t, "t")
		b.resume(t, "t", true)
	})
}

// A key of another type in place of the waiters does not count as a pause.
func TestNoPause(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, text("waiters:t"))
		check(t, b.push(t.Context(), Job{ID: "a", Topic: "t", Body: "b"}, Due{}, kept, Replace))
		b.expect(t, redistest.State{Ready: map[string][]string{"t": {"a"}}, Buckets: map[string]string{"a": "t b"}, Other: map[string]string{"delayer:waiters:t": "string"}})
	})
}
