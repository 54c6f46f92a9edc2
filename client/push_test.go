package client_test

import (
	"errors"
	"math"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

const never = -1 // not waiting

// A push applies its options: its delay from now, its lifetime, and its effect on a job that exists.
func TestPush(t *testing.T) {
	f := start(t)
	waits := state{Pool: []string{"a"}, Buckets: buckets{"a": "t new"}}
	isReady := state{Ready: queues{"t": {"a"}}, Buckets: waits.Buckets}
	for _, tt := range []struct {
		name    string
		before  []string
		delay   time.Duration
		policy  client.PushOption
		wantErr error
		want    state
		wantDue time.Duration // from now
	}{
		{"ready at once", nil, 0, client.Refuse, nil, isReady, never},
		{"shortest delay", nil, 1, client.KeepEarlier, nil, waits, time.Millisecond},
		{"longest delay", nil, client.MaxDelay, client.KeepLater, nil, waits, client.MaxDelay},
		{"replace, sooner", waiting("a", "t"), time.Second, client.Replace, nil, waits, time.Second},
		{"replace, later", waiting("a", "t"), 2000 * time.Second, client.Replace, nil, waits, 2000 * time.Second},
		{"replace, ready", ready("a", "t"), time.Second, client.Replace, nil, waits, time.Second},
		{"refuse", waiting("a", "t"), time.Second, client.Refuse, client.ErrExists, state{Pool: []string{"a"}, Buckets: buckets{"a": "t old"}}, 1000 * time.Second},
		{"earlier, is later", waiting("a", "t"), 2000 * time.Second, client.KeepEarlier, nil, waits, 1000 * time.Second},
		{"earlier, is earlier", waiting("a", "t"), time.Second, client.KeepEarlier, nil, waits, time.Second},
		{"later, is later", waiting("a", "t"), 2000 * time.Second, client.KeepLater, nil, waits, 2000 * time.Second},
		{"later, is earlier", waiting("a", "t"), time.Second, client.KeepLater, nil, waits, 1000 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := f.with(t)
			from := f.Clock()
			f.seed(tt.before...)
			id, err := f.Push(t.Context(), client.Message{ID: "a", Topic: "t", Body: "new"}, tt.delay, client.ReadyMaxLifetime(time.Hour), tt.policy)
			to := f.Clock()
			if !errors.Is(err, tt.wantErr) || (err == nil) != (id == "a") {
				t.Errorf("Push = %q, %v, want error %v", id, err, tt.wantErr)
			}
			f.Expect(tt.want)
			expectDue(t, f.Due("a"), from, to, tt.wantDue)
			if err == nil {
				kept := max(tt.wantDue, 0) + time.Hour
				expectSpan(t, "expiry", f.expires("a"), from+kept.Seconds(), to+kept.Seconds())
			}
		})
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
		check(t, errOf(f.PushAt(t.Context(), message("a"), due, client.ReadyMaxLifetime(time.Hour))))
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
		id, err := f.Push(t.Context(), client.Message{Topic: "t", Body: "new"}, time.Hour)
		if err != nil || !form.MatchString(id) {
			t.Fatalf("Push = %q, %v", id, err)
		}
		made[id] = "t new"
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
	f.put(m, 0, client.EmptyBody())
	if got, err := f.Pop(t.Context(), "t"); err != nil || !reflect.DeepEqual(got, m) {
		t.Errorf("got %+v, %v", got, err)
	}
}
