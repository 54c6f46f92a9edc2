package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// stopped returns a Store on a Redis whose clock stands still at that time.
func stopped(t *testing.T, at time.Time) (*backend, *miniredis.Miniredis) {
	t.Helper()
	m := miniredis.RunT(t)
	m.SetTime(at)
	f := redistest.On(t, m.Addr())
	f.Mini = true
	return newBackend(f, f.Pool()), m
}

// A job is not ready a microsecond before its due time and is ready from then on, whatever the previous state of its ID.
func TestPushAtTheMicrosecond(t *testing.T) {
	at := time.Unix(1800000000, 250e6) // a whole millisecond
	for _, tt := range []struct {
		after time.Duration // Redis's clock, relative to at
		ready bool
	}{
		{-time.Hour, false}, {-time.Millisecond, false}, {-999 * time.Microsecond, false}, {-time.Microsecond, false},
		{0, true}, {time.Microsecond, true}, {999 * time.Microsecond, true}, {time.Millisecond, true}, {time.Hour, true},
	} {
		b, _ := stopped(t, at.Add(tt.after))
		for _, policy := range []Policy{Replace, KeepEarlier, KeepLater} {
			for _, seed := range [][]command{nil, waits("a", "t", "1800007200.5"), ready("a", "t")} {
				// A policy chooses between at and the due time of the seed.
				for _, together := range []int{1, 2} {
					b.seed(t, seed)
					jobs := []Delayed{{Job{ID: "a", Topic: "t", Body: "b"}, Due{At: at}, Terms{Lifetime: time.Hour, Policy: policy}, nil}, {Job{ID: "b", Topic: "t", Body: "b"}, Due{At: at}, Terms{Lifetime: time.Hour, Policy: policy}, nil}}
					check(t, b.pushAll(t, jobs[:together]...))
					want := tt.ready
					switch {
					case seed == nil || policy == Replace:
					case len(seed) == 3 && seed[2][0] == "ZADD":
						want = want && policy == KeepEarlier
					case policy == KeepEarlier: // it was ready
						want = true
					}
					got := b.state(t)
					isReady, isWaiting := slices.Contains(got.Ready["t"], "a"), slices.Contains(got.Pool, "a")
					if isReady != want || isWaiting == want || len(got.Buckets) != together {
						t.Fatalf("%v behind the due time, %s over %v, %d jobs: state %+v, want ready: %v", tt.after, policy, seed, together, got, want)
					}
				}
			}
		}
	}
}

// A job that is not due yet needs no queue, not even in the millisecond in which it falls due.
func TestPushAtNeedsNoQueueYet(t *testing.T) {
	at := time.Unix(1800000000, 250e6)
	for n := 1; n <= 2; n++ {
		b, _ := stopped(t, at.Add(-time.Microsecond))
		b.seed(t, text("ready_queue:t"))
		jobs := []Delayed{{Job{ID: "a", Topic: "t", Body: "b"}, Due{At: at}, Terms{Lifetime: time.Hour, Policy: Replace}, nil}, {Job{ID: "b", Topic: "t", Body: "b"}, Due{At: at}, Terms{Lifetime: time.Hour, Policy: Replace}, nil}}
		if err := b.pushAll(t, jobs[:n]...); err != nil {
			t.Errorf("%d jobs: %v", n, err)
		}
		if waits := b.state(t).Pool; len(waits) != n {
			t.Errorf("%q wait, want %d", waits, n)
		}
	}
}

// A due time that a policy keeps is exact to the millisecond, although scores are binary fractions of seconds. A time between two
// milliseconds, which only from 2106 on is not a lease, is rounded up.
func TestKeptDueTimesAreExact(t *testing.T) {
	b, _ := stopped(t, time.Unix(1800000000, 0))
	kept := map[string]string{"1800000050": "1800000050", "5000000050.1231": "5000000050.124", "5000000050.123999": "5000000050.124", "5000000050.9999": "5000000051"}
	for ms := 1; ms < 1000; ms += 7 {
		score := fmt.Sprintf("%d.%03d", 1800000050, ms)
		kept[score] = strings.TrimRight(score, "0")
	}
	for score, want := range kept {
		for policy, other := range map[Policy]time.Time{KeepEarlier: time.Unix(6000000000, 0), KeepLater: time.Unix(1800000010, 0)} {
			b.seed(t, waits("a", "t", score))
			check(t, b.push(t.Context(), Job{ID: "a", Topic: "t", Body: "new"}, Due{At: other}, time.Hour, policy))
			if got := b.scores(t)["a"]; got != want {
				t.Errorf("%s: due at %s is kept as %s, want %s", policy, score, got, want)
			}
		}
	}
}
