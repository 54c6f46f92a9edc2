package client_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// Reschedule's delay counts from now. The job's lifetime in the ready queue stays the same.
func TestReschedule(t *testing.T) {
	f := start(t)
	for _, delay := range []time.Duration{0, time.Second, 3000 * time.Second, client.MaxDelay} {
		f.seed(waiting("a", "t")...)
		from := f.Clock()
		check(t, f.Reschedule(t.Context(), "a", delay))
		due := f.Due("a")
		if delay == 0 {
			f.Expect(state{Ready: queues{"t": {"a"}}, Buckets: buckets{"a": "t old"}})
			due = from
		} else {
			expectDue(t, due, from, f.Clock(), delay)
		}
		if kept := f.expires("a") - due; math.Abs(kept-2600) > hangBound.Seconds() {
			t.Errorf("in %v: kept for %f s, want 2600", delay, kept)
		}
	}
}

func TestErrorsNameOperationAndJob(t *testing.T) {
	f := start(t)
	_, err := f.Get(t.Context(), "order-1")
	if want := `delayer: get "order-1": no such job`; err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	f.push("a", "t")
	expectText(t, "Requeue of a job that is ready", f.Requeue(t.Context(), "a"), "no such dead letter")
	_, err = f.BPop(t.Context(), 1, "z", "a", "a")
	if want := `delayer: bpop "z, a, a": `; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %q, want %q in front", err, want)
	}
}
