package client_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// An error is no longer than a line, even with long names in it.
func TestErrorsCutNames(t *testing.T) {
	f := start(t)
	long := strings.Repeat("x", 512<<10)
	ctx := t.Context()
	d := f.Delivery("t", long, 1)
	errs := map[string]error{
		"Push":         errOf(f.Push(ctx, client.Message{ID: long, Topic: "t", Body: "b"}, 0)),
		"PushBatch":    errOf(f.PushBatch(ctx, []client.Item{{Message: client.Message{ID: long, Topic: "t", Body: "b"}}, {Message: client.Message{ID: long, Topic: "t", Body: "b"}}})),
		"Pop":          errOf(f.Pop(ctx, long)),
		"BPop":         errOf(f.BPop(ctx, time.Millisecond, long, long)),
		"Get":          errOf(f.Get(ctx, long)),
		"DropAll":      errOf(f.DropAll(done(ctx), long)),
		"AckBatch":     errOf(f.AckBatch(ctx, []*client.Delivery{d})),
		"Dead":         deadError(f.Client, done(ctx), long),
		"Delivery.Ack": f.Delivery("t", long, 1).Ack(ctx),
	}
	for name, err := range errs {
		if err == nil || len(err.Error()) > 1000 {
			t.Errorf("%s: an error of %d bytes: %.100v", name, len(err.Error()), err)
		}
	}
	if text := errs["Get"].Error(); !strings.HasPrefix(text, `delayer: get "xxx`) || !strings.Contains(text, `xx"… (524288 bytes): `) {
		t.Errorf("error %q", text)
	}
}

// done returns a context that is over.
func done(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}

func TestErrorsNameOperationAndJob(t *testing.T) {
	f := start(t)
	_, err := f.Get(t.Context(), "order-1")
	if want := `delayer: get "order-1": no such job`; err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	f.push("a", "t")
	expectText(t, "Requeue of a job that is ready", f.Requeue(t.Context(), "a"), "no such dead letter")
	_, err = f.BPop(t.Context(), time.Millisecond, "z", "a", "a")
	if want := `delayer: bpop "z, a, a": `; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("error %q, want %q in front", err, want)
	}
}
