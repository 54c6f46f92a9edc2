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
		"Push":             errOf(f.Push(ctx, client.Message{ID: long, Topic: "t", Body: "b"}, 0)),
		"Push of topic":    errOf(f.Push(ctx, client.Message{ID: "a", Topic: long, Body: "b"}, 0)),
		"PushBatch":        errOf(f.PushBatch(ctx, []client.Delayed{{Message: client.Message{ID: long, Topic: "t", Body: "b"}}, {Message: client.Message{ID: long, Topic: "t", Body: "b"}}})),
		"Pop":              errOf(f.Pop(ctx, long)),
		"PopBatch":         errOf(f.PopBatch(ctx, long, 1)),
		"BPop":             errOf(f.BPop(ctx, time.Millisecond, long, long)),
		"Reserve":          errOf(f.Reserve(ctx, time.Millisecond, 0, long)),
		"Fetch":            errOf(f.Fetch(ctx, client.FetchOptions{Max: 1, Topics: fetchTopics(long, long)})),
		"Get":              errOf(f.Get(ctx, long)),
		"Reschedule":       f.Reschedule(ctx, long, time.Hour),
		"Requeue":          f.Requeue(ctx, long),
		"RequeueAll":       errOf(f.RequeueAll(done(ctx), long)),
		"DropDead":         errOf(f.DropDead(done(ctx), long, "a")),
		"DropAllDead":      errOf(f.DropAllDead(done(ctx), long)),
		"Remove":           errOf(f.Remove(done(ctx), long)),
		"AckBatch":         errOf(f.AckBatch(ctx, []*client.Delivery{d})),
		"Dead":             deadError(f.Client, done(ctx), long),
		"Delivery.Ack":     f.Delivery("t", long, 1).Ack(ctx),
		"Delivery.Bury":    f.Delivery("t", long, 1).Bury(ctx, "r"),
		"Delivery.Extend":  d.Extend(ctx, time.Hour),
		"Delivery.Release": f.Delivery("t", long, 1).Release(ctx),
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
