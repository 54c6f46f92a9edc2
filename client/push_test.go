package client_test

import (
	"errors"
	"math"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

const never = -1 // not waiting

// A push's delay counts from now, and its lifetime from when it is due. TestModel has the effects on a job that exists.
func TestPush(t *testing.T) {
	f := start(t)
	for delay, due := range map[time.Duration]time.Duration{-time.Hour: never, 0: never, time.Millisecond: time.Millisecond, time.Millisecond + 1: 2 * time.Millisecond, time.Hour: time.Hour, store.MaxDelay: store.MaxDelay} {
		f.Flush()
		from := f.Clock()
		check(t, errOf(f.Push(t.Context(), message("a"), delay, client.JobOptions{ExpireAfter: time.Hour})))
		to := f.Clock()
		if ready := len(f.State().Ready["t"]) == 1; ready != (delay <= 0) {
			t.Errorf("in %v: ready %v", delay, ready)
		}
		expectDue(t, f.Due("a"), from, to, due)
		kept := (max(due, 0) + time.Hour).Seconds()
		expectSpan(t, "expiry", f.expires("a"), from+kept, to+kept)
	}
}

// expectDue checks that a score is the delay after a time between from and to. It must not be earlier.
func expectDue(t *testing.T, score, from, to float64, delay time.Duration) {
	t.Helper()
	if delay == never {
		if !math.IsNaN(score) {
			t.Errorf("waits until %f", score)
		}
		return
	}
	expectSpan(t, "due time", score, from+delay.Seconds(), to+delay.Seconds())
}

// expectSpan checks that a time is in the span, or rounded up out of it. (Redis computes a TTL by a clock that it reads
// once per command, in milliseconds.)
func expectSpan(t *testing.T, what string, got, from, to float64) {
	t.Helper()
	slack := 0.002
	if what == "due time" {
		from -= 1e-6 // floating point
	} else {
		from -= slack
	}
	if !(from <= got && got <= to+slack) {
		t.Errorf("%s %f is not from %f to %f", what, got, from, to)
	}
}

func TestPushAt(t *testing.T) {
	f := start(t)
	for due, want := range map[time.Time]float64{ // the score; 0 means ready at once
		time.Unix(4102444800, 250_000_001):                              4102444800.251, // never early
		time.Date(2099, 12, 31, 23, 0, 0, 0, time.FixedZone("", -3600)): 4102444800,
		time.Now().Add(-time.Hour):                                      0,
		time.Unix(-1, 0):                                                0, // before 1970
	} {
		f.seed()
		check(t, errOf(f.PushAt(t.Context(), message("a"), due, client.JobOptions{ExpireAfter: time.Hour})))
		if score := f.Due("a"); score != want && !(want == 0 && len(f.State().Ready["t"]) == 1) {
			t.Errorf("%v: score %f, want %f", due, score, want)
		}
		if kept := f.expires("a") - max(f.Clock(), want); math.Abs(kept-3600) > 10 {
			t.Errorf("%v: kept for %f s once ready, want an hour", due, kept)
		}
	}
}

func TestPushMakesID(t *testing.T) {
	f := start(t)
	form := regexp.MustCompile(`^[0-9a-f]{32}$`)
	made := buckets{}
	for range 100 {
		pushed, err := f.Push(t.Context(), client.Message{Topic: "t", Body: "new"}, time.Hour)
		if err != nil || !form.MatchString(pushed.ID) || pushed.Outcome != client.OutcomeCreated {
			t.Fatalf("Push = %+v, %v", pushed, err)
		}
		made[pushed.ID] = "t new"
	}
	if got := f.State().Buckets; len(made) != 100 || len(got) != 100 {
		t.Errorf("%d different IDs, %d jobs, want 100", len(made), len(got))
	}
}

// A body may be empty if the push allows it, and is delivered as it was pushed.
func TestEmptyBody(t *testing.T) {
	f := start(t)
	m := client.Message{ID: "a", Topic: "t"}
	expectErr(t, "Push", errOf(f.Push(t.Context(), m, 0)), client.ErrInvalid)
	f.put(m, 0, client.JobOptions{EmptyBody: true})
	if got, err := f.Pop(t.Context(), "t"); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// Of two options that say the same, the later counts. A field of JobOptions that is not set leaves the earlier one.
func TestLaterOptionCounts(t *testing.T) {
	f := start(t)
	f.push("a", "t")
	earlier, later := client.JobOptions{MaxAttempts: 2, Lease: time.Minute}, client.JobOptions{MaxAttempts: 3}
	pushed, err := f.Push(t.Context(), message("a"), time.Hour, client.IfExists(client.Refuse()), earlier, client.IfExists(client.KeepEarlier()), later)
	job, unknown := f.Get(t.Context(), "a")
	check(t, unknown)
	if want := (client.JobOptions{MaxAttempts: 3, Lease: time.Minute}); err != nil || pushed.Outcome != client.OutcomeKept || job.State != client.StateReady || job.Options != want {
		t.Errorf("%+v, %v: %+v", pushed, err, job)
	}
}

// An ID has one topic: only Replace moves it to another one, as do clients of the original. Refusing policies say that the ID exists, and a
// dead letter does not count.
func TestPushToAnotherTopic(t *testing.T) {
	f := start(t)
	const text = `delayer: push "a": a job of another topic has this ID: it is of "t", and the push is to "u"`
	states := map[string]func(){
		"waiting": func() { f.put(message("a"), time.Hour) },
		"ready":   func() { f.put(message("a"), 0) },
		"reserved": func() {
			f.put(message("a"), 0)
			f.reserve("t")
		},
	}
	elsewhere := client.Item{Message: client.Message{ID: "a", Topic: "u", Body: "new"}, Delay: time.Hour}
	for state, make := range states {
		for name, policy := range map[string]client.PushOption{"default": nil, "KeepEarlier": client.IfExists(client.KeepEarlier()), "KeepLater": client.IfExists(client.KeepLater()), "Follow": client.IfExists(client.Follow()), "Debounce": client.IfExists(client.Debounce(time.Hour))} {
			f.Flush()
			make()
			was := f.State()
			if policy != nil {
				elsewhere.Options = []client.PushOption{policy}
			} else {
				elsewhere.Options = nil
			}
			_, err := f.Push(t.Context(), elsewhere.Message, elsewhere.Delay, elsewhere.Options...)
			if !errors.Is(err, client.ErrOtherTopic) || errors.Is(err, client.ErrExists) || err.Error() != text {
				t.Errorf("%s, %s: %v, want %s", state, name, err, text)
			}
			results, err := f.PushBatch(t.Context(), []client.Item{elsewhere, {Message: message("b"), Delay: time.Hour}})
			if !errors.Is(err, client.ErrOtherTopic) || len(results) != 2 || results[0].Outcome != client.OutcomeRefused || results[1].Err != nil {
				t.Errorf("%s, %s: in a batch %+v, %v", state, name, results, err)
			}
			check(t, errOf(f.Remove(t.Context(), "b")))
			f.Expect(was)
		}
		expectErr(t, "Refuse", errOf(f.Push(t.Context(), elsewhere.Message, 0, client.IfExists(client.Refuse()))), client.ErrExists)
		check(t, errOf(f.Push(t.Context(), elsewhere.Message, time.Hour, client.IfExists(client.Replace()))))
		f.Expect(redistest.State{Pool: []string{"a"}, Buckets: buckets{"a": "u new"}})
	}
	f.Flush()
	f.put(message("a"), 0)
	check(t, f.reserve("t").Bury(t.Context(), errors.New("why")))
	check(t, errOf(f.Push(t.Context(), elsewhere.Message, time.Hour)))
}
