package delayerotel_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/delayerotel"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"
)

// reserved reserves the next job of topic t.
func (f *fixture) reserved() *client.Delivery {
	f.TB.Helper()
	d, err := f.Reserve(f.TB.Context(), time.Minute, "t")
	check(f.TB, err)
	f.done()
	return d
}

// spansOfCalls are calls, and the spans that they leave behind.
var spansOfCalls = map[string]struct {
	call func(ctx context.Context, f *fixture)
	want []string
}{
	"push": {func(ctx context.Context, f *fixture) {
		f.push(client.Message{ID: "a"}, time.Hour)
		f.push(client.Message{ID: "a"}, time.Hour, client.IfExists(client.Refuse()))
	}, []string{
		"producer push t, 0 links: delayer.push.outcome=created destination.name=t message.id=a operation.type=send",
		"producer push t, 0 links: delayer.push.outcome=refused destination.name=t message.id=a operation.type=send",
	}},
	"wrong push": {func(ctx context.Context, f *fixture) { f.Push(ctx, client.Message{Topic: "t"}, 0) },
		[]string{"producer push t, 0 links: destination.name=t error.type=invalid operation.type=send; Error"}},
	"broken push": {func(ctx context.Context, f *fixture) {
		f.Do("SET", "delayer:ready_queue:t", "x")
		f.Push(ctx, client.Message{ID: "a", Topic: "t", Body: "1"}, 0)
	}, []string{"producer push t, 0 links: destination.name=t error.type=github.com/gomodule/redigo/redis.Error message.id=a operation.type=send; Error"}},
	"push batch": {func(ctx context.Context, f *fixture) {
		f.PushBatch(ctx, []client.Item{{Message: client.Message{Topic: "t", Body: "1"}}, {Message: client.Message{Topic: "t", Body: "2"}}})
		f.PushBatch(ctx, []client.Item{{Message: client.Message{Topic: "t", Body: "1"}}, {Message: client.Message{Topic: "u", Body: "2"}}})
	}, []string{
		"producer push batch t, 0 links: batch.message_count=2 destination.name=t operation.type=send",
		"producer push batch, 0 links: batch.message_count=2 operation.type=send",
	}},
	"pop": {func(ctx context.Context, f *fixture) {
		f.push(client.Message{ID: "a"}, 0)
		f.done()
		f.Pop(ctx, "t")
		f.Pop(ctx, "t") // gets nothing
	}, []string{"client pop t, 1 links: destination.name=t message.id=a operation.type=receive"}},
	"bpop": {func(ctx context.Context, f *fixture) {
		f.push(client.Message{ID: "a"}, 0)
		f.done()
		f.BPop(ctx, 0, "u", "t")
		f.BPop(ctx, time.Second, "t") // long enough for an answer; without one the call fails
		f.BPop(ended(), 0, "t")
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		f.BPop(short, 0, "t")
	}, []string{"client bpop t, 1 links: destination.name=t message.id=a operation.type=receive"}},
	"wrong pop": {func(ctx context.Context, f *fixture) { f.BPop(ctx, -1, "t") },
		[]string{"client bpop t, 0 links: destination.name=t error.type=invalid operation.type=receive; Error"}},
	"batches": {func(ctx context.Context, f *fixture) {
		f.PushBatch(ctx, []client.Item{{Message: client.Message{Topic: "t", Body: "1"}}, {Message: client.Message{Topic: "t", Body: "2"}}})
		f.push(client.Message{ID: "a"}, 0)
		f.done()
		list, err := f.Fetch(ctx, clienttest.Ready("t", 10, 0))
		check(f.TB, err)
		f.ExtendBatch(ctx, list, time.Hour)
		f.AckBatch(ctx, list)
	}, []string{
		"client ack batch t, 2 links: batch.message_count=3 destination.name=t operation.type=settle",
	}},
	"fetch": {func(ctx context.Context, f *fixture) {
		f.push(client.Message{ID: "a"}, 0)
		f.done()
		f.Fetch(ctx, client.FetchOptions{Topics: []client.FetchTopic{{Topic: "t"}}, Max: 1})
	}, nil},
	"settle": {func(ctx context.Context, f *fixture) {
		f.push(client.Message{ID: "a"}, 0, client.JobOptions{MaxAttempts: 2})
		d := f.reserved()
		d.Extend(ctx, time.Hour)
		d.Retry(ctx, 0, nil)
		d.Ack(ctx)
		second := f.reserved()
		second.Retry(ctx, 0, nil)
	}, []string{"client retry t, 1 links: delayer.job.attempt=2 destination.name=t message.id=a operation.type=settle"}},
	"lost lease": {func(ctx context.Context, f *fixture) {
		f.push(client.Message{ID: "a"}, 0)
		d := f.reserved()
		f.Remove(ctx, "a")
		d.Ack(ctx)
	}, []string{"client ack t, 1 links: delayer.job.attempt=1 destination.name=t error.type=lease_lost message.id=a operation.type=settle; Error"}},
	"the program's own handler": {func(ctx context.Context, f *fixture) {
		f.push(client.Message{ID: "a"}, 0)
		_, done := f.reserved().Handling(ctx)
		done(errors.New("no"))
	}, []string{"consumer handle t, 1 links: delayer.job.attempt=1 destination.name=t error.type=*errors.errorString message.id=a operation.type=process; Error"}},
}

func TestSpans(t *testing.T) {
	for name, c := range spansOfCalls {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			c.call(t.Context(), f)
			var got []string
			for _, s := range f.done() {
				got = append(got, spanText(s))
			}
			equal(t, "spans", got, c.want)
		})
	}
}

// A trace goes from a push through its job's headers to the handler's span, which links to it, or with WithParent is its
// child, and to what the handler does and what settles its job.
func TestTrace(t *testing.T) {
	for name, parent := range map[string]bool{"link": false, "parent": true} {
		t.Run(name, func(t *testing.T) {
			var opts []delayerotel.Option
			if parent {
				opts = append(opts, delayerotel.WithParent())
			}
			f := start(t, opts...)
			f.serve()
			ctx, request := f.tracers.Tracer("").Start(t.Context(), "request")
			_, err := f.Push(ctx, client.Message{ID: "a", Topic: "t", Body: "1"}, 20*time.Millisecond)
			check(t, err)
			request.End()
			pushed := f.done()[0]

			ran, stop := context.WithCancel(t.Context())
			mux := worker.NewMux()
			mux.HandleFunc("t", func(ctx context.Context, _ *worker.Job) error {
				_, inside := f.tracers.Tracer("").Start(ctx, "inside")
				inside.End()
				return nil
			})
			done := make(chan error, 1)
			go func() { done <- worker.New(f.Client, mux, worker.Options{}).Run(ran) }()
			until(t, "the job is settled", func() bool { return len(f.spans.Ended()) == 5 })
			stop()
			check(t, <-done)

			spans := map[string]trace.ReadOnlySpan{"push t": pushed}
			for _, s := range f.done() {
				spans[s.Name()] = s
			}
			handle := spans["handle t"]
			if pushed.Parent().SpanID() != request.SpanContext().SpanID() {
				t.Error("the push is not the request's child")
			}
			for _, child := range []string{"inside", "ack t"} {
				if spans[child].Parent().SpanID() != handle.SpanContext().SpanID() {
					t.Errorf("%s is not the handler's child", child)
				}
			}
			if parent {
				if handle.Parent().SpanID() != pushed.SpanContext().SpanID() || !handle.Parent().IsRemote() || len(handle.Links()) != 0 {
					t.Errorf("the handler is a child of %v, with links %v", handle.Parent(), handle.Links())
				}
			} else if handle.Parent().IsValid() || len(handle.Links()) != 1 || handle.Links()[0].SpanContext.SpanID() != pushed.SpanContext().SpanID() {
				t.Errorf("the handler is a child of %v, with links %v", handle.Parent(), handle.Links())
			}
		})
	}
}

// handled runs a worker on the topic's next job, and returns the handler's span and context.
func (f *fixture) handled(topic string, result error) (span trace.ReadOnlySpan, in context.Context) {
	f.TB.Helper()
	mux := worker.NewMux()
	mux.HandleFunc(topic, func(ctx context.Context, _ *worker.Job) error { in = ctx; return result })
	_, err := worker.New(f.Client, mux, worker.Options{Logger: slog.New(slog.DiscardHandler)}).RunOne(f.TB.Context(), topic)
	if !errors.Is(err, result) {
		f.TB.Fatal(err)
	}
	spans := f.done()
	at := slices.IndexFunc(spans, func(s trace.ReadOnlySpan) bool { return strings.HasPrefix(s.Name(), "handle") })
	return spans[at], in
}

// linksTo reports whether the only link of a span leads to the n-th span that has ended.
func (f *fixture) linksTo(s trace.ReadOnlySpan, n int) bool {
	links := s.Links()
	return len(links) == 1 && links[0].SpanContext.SpanID() == f.spans.Ended()[n].SpanContext().SpanID()
}

// A released job has not failed.
func TestRelease(t *testing.T) {
	f := start(t)
	f.push(client.Message{ID: "a"}, 0)
	mux := worker.NewMux()
	mux.HandleFunc("t", func(context.Context, *worker.Job) error { return worker.Release(time.Hour) })
	worker.New(f.Client, mux, worker.Options{Logger: slog.New(slog.DiscardHandler)}).RunOne(t.Context(), "t")
	for _, s := range f.done() {
		if s.Status().Description != "" {
			t.Errorf("%s has failed: %v", s.Name(), s.Status())
		}
	}
}

// Headers of the caller stay as they are: one with a trace, which the push then links to, and one that leaves no room.
func TestHeadersOfTheCaller(t *testing.T) {
	const traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	f := start(t)
	full := strings.Repeat("x", 4060)
	for id, headers := range map[string]map[string]string{"a": {"traceparent": traced}, "b": {"x": full}, "c": {"tenant": "y"}} {
		f.push(client.Message{ID: id, Headers: headers}, time.Hour)
		if len(headers) != 1 {
			t.Errorf("the caller's headers are %v now", headers)
		}
	}
	for id, want := range map[string]int{"a": 1, "b": 1, "c": 2} {
		if job, err := f.Get(t.Context(), id); err != nil || len(job.Headers) != want {
			t.Errorf("%s has headers %v, %v", id, job.Headers, err)
		}
	}
	for _, s := range f.done() {
		own := s.SpanKind() == api.SpanKindClient
		if own != (len(s.Links()) == 1 && s.Links()[0].SpanContext.TraceID().String() == traced[3:35]) {
			t.Errorf("%s has links %v", spanText(s), s.Links())
		}
	}
}

// Other propagators work, too: a job's baggage is in the handler's context.
func TestPropagator(t *testing.T) {
	f := start(t, delayerotel.WithPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})))
	member, err := baggage.NewMember("tenant", "x")
	check(t, err)
	b, err := baggage.New(member)
	check(t, err)
	_, err = f.Push(baggage.ContextWithBaggage(t.Context(), b), client.Message{Topic: "t", Body: "1"}, 0)
	check(t, err)
	s, in := f.handled("t", nil)
	if !f.linksTo(s, 0) || baggage.FromContext(in).Member("tenant").Value() != "x" {
		t.Errorf("links %v, baggage %v", s.Links(), baggage.FromContext(in))
	}
}

// A program without an SDK pays with no headers, and passes on a trace that it was called in.
func TestWithoutSDK(t *testing.T) {
	f := start(t)
	f.Client = f.open()
	f.push(client.Message{ID: "a"}, time.Hour)
	if job, err := f.Get(t.Context(), "a"); err != nil || job.Headers != nil {
		t.Errorf("headers %v, %v", job.Headers, err)
	}
	caller := api.NewSpanContext(api.SpanContextConfig{TraceID: api.TraceID{1}, SpanID: api.SpanID{2}})
	_, err := f.Push(api.ContextWithRemoteSpanContext(t.Context(), caller), client.Message{ID: "b", Topic: "t", Body: "1"}, time.Hour)
	check(t, err)
	if job, err := f.Get(t.Context(), "b"); err != nil || !strings.Contains(job.Headers["traceparent"], caller.TraceID().String()) {
		t.Errorf("headers %v, %v", job.Headers, err)
	}
}

// What is measured.
func TestMetrics(t *testing.T) {
	f := start(t)
	f.push(client.Message{ID: "a"}, 0)
	f.push(client.Message{ID: "a"}, 0, client.IfExists(client.Refuse()))
	f.Push(t.Context(), client.Message{Topic: "t"}, 0)
	f.PushBatch(t.Context(), []client.Item{{Message: client.Message{ID: "b", Topic: "t", Body: "1"}}, {Message: client.Message{Topic: "u", Body: "2"}}})
	f.handled("t", nil)
	f.handled("t", errors.New("no"))
	f.Pop(t.Context(), "u")
	f.Pop(t.Context(), "u")
	equal(t, "measurements", f.points(), []string{
		"client.consumed.messages {message} [fetch t] 2",
		"client.consumed.messages {message} [pop u] 1",
		"client.operation.duration s [ack settle t] 1",
		"client.operation.duration s [fetch receive t] 2",
		"client.operation.duration s [invalid push send t] 1",
		"client.operation.duration s [pop receive u] 1",
		"client.operation.duration s [push batch send] 1",
		"client.operation.duration s [push send t] 2",
		"client.operation.duration s [retry settle t] 1",
		"client.sent.messages {message} [invalid push t] 1",
		"client.sent.messages {message} [push batch t] 1",
		"client.sent.messages {message} [push batch u] 1",
		"client.sent.messages {message} [push t] 2",
		"delayer.job.lateness s [t] 2",
		"process.duration s [*errors.errorString handle t] 1",
		"process.duration s [handle t] 1",
	})
}
