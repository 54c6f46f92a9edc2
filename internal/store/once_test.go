package store

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// pushed pushes a job and returns the outcome.
func (b *backend) pushed(t *testing.T, id string, delay time.Duration, policy Policy) (Outcome, error) {
	t.Helper()
	did := new(Told)
	errs := made(t, b.Push([]Delayed{{Job{ID: id, Topic: "t", Body: "b"}, Due{After: delay}, Terms{Lifetime: time.Hour, Policy: policy}, did}}))
	return did.Did, errs[0]
}

// Only one push per window counts, whatever happens to its job. Pushes without a window ignore the window.
func TestOnce(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		once := Once(time.Hour)
		expect := func(what string, id string, policy Policy, want Outcome) {
			t.Helper()
			did, err := b.pushed(t, id, 0, policy)
			var wantErr error
			if want == DidRefuse {
				wantErr = ErrExists
			}
			if did != want || !errors.Is(err, wantErr) {
				t.Errorf("%s: %v, %v, want %v, %v", what, did, err, want, wantErr)
			}
		}
		for what, end := range map[string]func(id string){
			"ready":    func(string) {},
			"popped":   func(string) { _, _, err := b.pop(t.Context(), []string{"t"}); check(t, err) },
			"reserved": func(string) { b.hold(t, "t", time.Hour) },
			"acked":    func(string) { held, _ := b.hold(t, "t", time.Hour); made(t, b.Ack([]LeaseRef{held})) },
			"dead":     func(string) { held, _ := b.hold(t, "t", time.Hour); made(t, b.Bury([]Burial{{held, "why", ""}})) },
			"expired":  func(id string) { b.do(t, "DEL", b.keys.JobBucket(id)) },
		} {
			b.do(t, "FLUSHALL")
			expect("first", "x", once, DidCreate)
			end("x")
			expect(what, "x", once, DidRefuse)
			was := b.state(t)
			expect(what+", again", "x", once, DidRefuse)
			b.expect(t, was)
			check(t, errOf(b.remove(t.Context(), "x")))
			expect("removed when "+what, "x", once, DidCreate)
		}
		expect("without a window", "x", Replace, DidReplace)
		expect("refused without a window", "y", Refuse, DidCreate)
		expect("of one that exists without a window", "y", once, DidRefuse)
		b.do(t, "DEL", b.keys.JobBucket("y"))
		expect("of one that had none", "y", once, DidCreate)

		// In a batch each push gets its own outcome, and none affects the others.
		told := make([]Told, 3)
		batch := []Delayed{
			{Job{ID: "x", Topic: "t", Body: "b"}, Due{}, Terms{Lifetime: time.Hour, Policy: once}, &told[0]},
			{Job{ID: "z", Topic: "t", Body: "b"}, Due{}, Terms{Lifetime: time.Hour, Policy: once}, &told[1]},
			{Job{ID: "y", Topic: "t", Body: "b"}, Due{}, Terms{Lifetime: time.Hour, Policy: Replace}, &told[2]},
		}
		errs := made(t, b.PushAll(batch))
		if want := []Told{{Did: DidRefuse}, {Did: DidCreate}, {Did: DidReplace}}; !slices.Equal(told, want) || errs[0] != ErrExists || errs[1] != nil || errs[2] != nil {
			t.Errorf("a batch: %v, %v, want %v", told, errs, want)
		}
		if got, want := b.state(t).Once, []string{"x", "y", "z"}; !slices.Equal(got, want) {
			t.Errorf("counted are %q, want %q", got, want)
		}
	}, alone)
}

// Windows that are over are removed, and the set itself expires after the last window.
func TestOnceIsForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		key := b.keys.Once()
		for i := range 25 {
			b.do(t, "ZADD", key, 1000+i, fmt.Sprint("old ", i))
		}
		if did, err := b.pushed(t, "old 3", 0, Once(time.Hour)); did != DidCreate || err != nil {
			t.Errorf("a window that is over: %v, %v", did, err)
		}
		if n := len(b.state(t).Once); n != 15 { // 25 less 10
			t.Errorf("there are %d, want 15", n)
		}
		for i, window := range []time.Duration{time.Minute, 2 * time.Hour} {
			check(t, errOf(b.pushed(t, fmt.Sprint("x", i), 0, Once(window))))
			kept := time.Duration(b.do(t, "PTTL", key).(int64)) * time.Millisecond
			if want := max(window, time.Hour); kept > want || kept < want-time.Minute {
				t.Errorf("after a window of %v the set is kept for %v, want %v", window, kept, want)
			}
		}
		if got, want := b.state(t).Once, []string{"old 3", "x0", "x1"}; !slices.Equal(got, want) {
			t.Errorf("counted are %q, want %q", got, want)
		}
	})
}

// A burst of pushes becomes one job, due at most the given time after the first push.
func TestDebounce(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		debounce := Debounce(100 * time.Second)
		from := 0.0
		ago := func(d time.Duration) { // sets the start of the burst
			from = b.clock(t)
			b.do(t, "HSET", b.keys.JobBucket("x"), "first", int64(from*1000)-d.Milliseconds())
		}
		expect := func(what string, policy Policy, want Outcome, due time.Duration) {
			t.Helper()
			var did Outcome
			span := b.timed(t, func() {
				var err error
				did, err = b.pushed(t, "x", 30*time.Second, policy)
				check(t, err)
			})
			at, waits := b.due(t, "x")
			if did != want || waits != (due > 0) || waits && (at < cmp.Or(from, span.from)+due.Seconds()-rounding || at > span.to+due.Seconds()+rounding) {
				t.Errorf("%s: %v, due at %v (%v), want %v, %v after %v", what, did, at, waits, want, due, span)
			}
			from = 0
		}
		expect("the first", debounce, DidCreate, 30*time.Second)
		expect("the next", debounce, DidReplace, 30*time.Second)
		ago(80 * time.Second)
		expect("a late one", debounce, DidReplace, 20*time.Second)
		ago(200 * time.Second)
		expect("one that is too late", debounce, DidReplace, 0)
		expect("when it is ready", debounce, DidReplace, 0)
		b.hold(t, "t", time.Hour)
		expect("when it is reserved", debounce, DidReplace, 30*time.Second)
		ago(200 * time.Second)
		expect("a push of another kind", Replace, DidReplace, 30*time.Second)
		expect("the first again", debounce, DidReplace, 30*time.Second)
		ago(0)
		expect("with a delay that is too long", Debounce(10*time.Second), DidReplace, 10*time.Second)
	})
}

// A push with Once may include a fingerprint. Then a push with a different fingerprint returns ErrReused.
func TestOnceAs(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		one, other := OnceAs(time.Hour, "one thing"), OnceAs(time.Hour, "other")
		group := func(id string, policy Policy) Delayed {
			d := toGroup("t", "k", "1", Group{Longest: time.Hour})
			d.ID, d.Policy = d.ID+id, policy
			return d
		}
		job := func(id string, policy Policy) Delayed {
			return Delayed{Job{ID: id, Topic: "t", Body: "b"}, Due{After: time.Hour}, Terms{Lifetime: time.Hour, Policy: policy}, new(Told)}
		}
		for name, push := range map[string]func(id string, policy Policy) error{
			"one": func(id string, policy Policy) error { return made(t, b.Push([]Delayed{job(id, policy)}))[0] },
			"many": func(id string, policy Policy) error {
				return made(t, b.PushAll([]Delayed{job("z", Replace), job(id, policy)}))[1]
			},
			"group": func(id string, policy Policy) error { return made(t, b.Push([]Delayed{group(id, policy)}))[0] },
		} {
			t.Run(name, func(t *testing.T) {
				b.seed(t)
				tag := ""
				if name == "group" {
					tag = GroupTag("t", "k")
				}
				expect := func(what string, got, want error) {
					t.Helper()
					if got != want {
						t.Errorf("%s: %v, want %v", what, got, want)
					}
				}
				expect("first", push("x", one), nil)
				was := b.state(t)
				expect("the same", push("x", one), ErrExists)
				expect("another", push("x", other), ErrReused)
				expect("one that does not say", push("x", Once(time.Hour)), ErrExists)
				b.expect(t, was)

				expect("of another ID", push("y", other), nil)
				b.do(t, "DEL", b.keys.OnceContent(tag+"y"))
				expect("after what it said was lost", push("y", one), ErrExists)
				b.do(t, "SET", b.keys.OnceContent(tag+"y"), "broken")
				expect("after that was broken", push("y", one), ErrExists)

				b.do(t, "ZREM", b.keys.Once(), tag+"x") // like Remove
				b.do(t, "DEL", b.keys.JobBucket("x"))
				expect("once it is free, one that does not say", push("x", Once(2*time.Hour)), nil)
				expect("which is compared with none before it", push("x", other), ErrExists)
			})
		}
		if errs := made(t, b.PushAll([]Delayed{job("x", other), job("new", one)})); errs[1] != nil {
			t.Errorf("one that is refused keeps back another: %v", errs)
		}
	})
}
