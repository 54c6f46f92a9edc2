package client_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// Get returns all fields of a job, in each of its states.
func TestGet(t *testing.T) {
	f := start(t)
	message := client.Message{ID: "a", Topic: "t", Body: "old"}
	for _, tt := range []struct {
		name    string
		before  []string
		want    client.Job // Due left out
		wantErr error
	}{
		{"waiting", waiting("a", "t"), client.Job{Message: message, State: client.Waiting, TTL: time.Hour}, nil},
		{"ready", ready("a", "t"), client.Job{Message: message, State: client.Ready, TTL: time.Hour}, nil},
		{"kept for ever", append(ready("a", "t"), "PERSIST delayer:job_bucket:a"), client.Job{Message: message, State: client.Ready, TTL: -1}, nil},
		{"absent", nil, client.Job{}, client.ErrNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := f.with(t)
			from := f.Clock()
			f.seed(tt.before...)
			to := f.Clock()
			job, err := f.Get(t.Context(), "a")
			expectErr(t, "Get", err, tt.wantErr)
			if job.State == client.Waiting {
				expectSpan(t, "due", float64(job.Due.UnixMicro())/1e6, from+1000, to+1000)
				job.Due = time.Time{}
			}
			if lived := tt.want.TTL - job.TTL; lived < 0 || lived > hangBound {
				t.Errorf("TTL %v, want %v", job.TTL, tt.want.TTL)
			}
			job.TTL = tt.want.TTL
			if !reflect.DeepEqual(job, tt.want) {
				t.Errorf("got %+v, want %+v", job, tt.want)
			}
		})
	}
}

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
