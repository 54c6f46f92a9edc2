package delayerotel

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"
)

type hooks struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator
	parent     bool // a handler's span is a child of the push
	meter      meter
}

// push starts the span of a push, and writes its context to the headers of jobs that have none.
func (h *hooks) push(ctx context.Context, call *client.Call) (context.Context, func()) {
	began, kind := time.Now(), trace.SpanKindClient
	if slices.ContainsFunc(call.Jobs, func(job client.CallJob) bool { return !h.isTraced(job.Headers) }) {
		kind = trace.SpanKindProducer // its context is the creation context of some jobs
	}
	ctx, span := h.start(ctx, call, semconv.MessagingOperationTypeSend, trace.WithSpanKind(kind), trace.WithLinks(h.links(call.Jobs)...))
	for i := range call.Jobs {
		h.inject(ctx, &call.Jobs[i])
	}
	return ctx, func() {
		if len(call.Jobs) == 1 && call.Jobs[0].Outcome != "" {
			span.SetAttributes(attribute.String("delayer.push.outcome", string(call.Jobs[0].Outcome)))
		}
		end(span, call)
		h.measure(ctx, call, semconv.MessagingOperationTypeSend, began)
		for count, n := range counted(call.Jobs) {
			h.meter.sent.Add(ctx, n, call.Operation, system, count.attributes()...)
		}
	}
}

func (h *hooks) isTraced(headers map[string]string) bool {
	return slices.ContainsFunc(h.propagator.Fields(), func(field string) bool { return headers[field] != "" })
}

// maxHeaders is how long headers may be as a JSON object.
const maxHeaders = 4 << 10

// inject writes the context to the headers of a job, unless they have one, or would be too long with it.
func (h *hooks) inject(ctx context.Context, job *client.CallJob) {
	if h.isTraced(job.Headers) {
		return
	}
	own := len(job.Headers)
	if own == 0 {
		job.Headers = map[string]string{}
	}
	h.propagator.Inject(ctx, propagation.MapCarrier(job.Headers))
	if own == 0 {
		return
	}
	if text, err := json.Marshal(job.Headers); err != nil || len(text) > maxHeaders {
		for _, field := range h.propagator.Fields() {
			delete(job.Headers, field)
		}
	}
}

// deliver records a call that takes jobs when it is done, because a wait without a job leaves no trace.
func (h *hooks) deliver(ctx context.Context, call *client.Call) (context.Context, func()) {
	began := time.Now()
	return nil, func() {
		if len(call.Jobs) == 0 && isIdle(call.Err) {
			return
		}
		if call.Operation != "fetch" {
			_, span := h.start(ctx, call, semconv.MessagingOperationTypeReceive,
				trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(began), trace.WithLinks(h.links(call.Jobs)...))
			end(span, call)
		}
		h.measure(ctx, call, semconv.MessagingOperationTypeReceive, began)
		for count, n := range counted(call.Jobs) {
			h.meter.consumed.Add(ctx, n, call.Operation, system, count.attributes()...)
		}
		for _, job := range call.Jobs {
			if job.LateBy >= 0 {
				h.meter.lateness.Record(ctx, job.LateBy.Seconds(), metric.WithAttributes(
					semconv.MessagingSystemKey.String(system), semconv.MessagingDestinationName(job.Topic)))
			}
		}
	}
}

// isIdle reports whether a call that takes jobs has ended because there was none.
func isIdle(err error) bool {
	return err == nil || errors.Is(err, client.ErrEmpty) || errors.Is(err, client.ErrClosed) ||
		errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (h *hooks) settle(ctx context.Context, call *client.Call) (context.Context, func()) {
	began, span := time.Now(), trace.Span(nil)
	if !strings.HasPrefix(call.Operation, "extend") {
		ctx, span = h.start(ctx, call, semconv.MessagingOperationTypeSettle,
			trace.WithSpanKind(trace.SpanKindClient), trace.WithLinks(h.links(call.Jobs)...))
	}
	return ctx, func() {
		if span != nil {
			end(span, call)
		}
		h.measure(ctx, call, semconv.MessagingOperationTypeSettle, began)
	}
}

func (h *hooks) handle(ctx context.Context, call *client.Call) (context.Context, func()) {
	began := time.Now()
	pushed := h.extract(&call.Jobs[0])
	if b := baggage.FromContext(pushed); b.Len() > 0 {
		ctx = baggage.ContextWithBaggage(ctx, b)
	}
	opts := []trace.SpanStartOption{trace.WithSpanKind(trace.SpanKindConsumer)}
	if push := trace.SpanContextFromContext(pushed); push.IsValid() && h.parent {
		ctx = trace.ContextWithRemoteSpanContext(ctx, push)
	} else if push.IsValid() {
		opts = append(opts, trace.WithLinks(trace.Link{SpanContext: push}))
	}
	ctx, span := h.start(ctx, call, semconv.MessagingOperationTypeProcess, opts...)
	return ctx, func() {
		end(span, call)
		h.meter.handling.Record(ctx, time.Since(began).Seconds(), call.Operation, system, ofCall(call)...)
	}
}

// start starts the span of a call.
func (h *hooks) start(ctx context.Context, call *client.Call, kind attribute.KeyValue, opts ...trace.SpanStartOption) (context.Context, trace.Span) {
	name, topic := call.Operation, topicOf(call)
	attributes := []attribute.KeyValue{semconv.MessagingSystemKey.String(system), semconv.MessagingOperationName(call.Operation), kind}
	if topic != "" {
		name += " " + topic
		attributes = append(attributes, semconv.MessagingDestinationName(topic))
	}
	if len(call.Jobs) == 1 && call.Jobs[0].Attempt > 0 {
		attributes = append(attributes, attribute.Int("delayer.job.attempt", call.Jobs[0].Attempt))
	}
	return h.tracer.Start(ctx, name, append(opts, trace.WithAttributes(attributes...))...)
}

// end ends the span of a call that is done, and so has its IDs.
func end(span trace.Span, call *client.Call) {
	if len(call.Jobs) == 1 && call.Jobs[0].ID != "" {
		span.SetAttributes(semconv.MessagingMessageID(call.Jobs[0].ID))
	}
	if strings.HasSuffix(call.Operation, " batch") {
		span.SetAttributes(semconv.MessagingBatchMessageCount(len(call.Jobs)))
	}
	if kind := errorType(call.Err); kind != "" {
		span.SetAttributes(semconv.ErrorTypeKey.String(kind))
		span.SetStatus(codes.Error, call.Err.Error())
	}
	span.End()
}

// measure records how long a call took.
func (h *hooks) measure(ctx context.Context, call *client.Call, kind attribute.KeyValue, began time.Time) {
	h.meter.duration.Record(ctx, time.Since(began).Seconds(), call.Operation, system, append(ofCall(call), kind)...)
}

// ofCall returns the attributes of a call's measurements.
func ofCall(call *client.Call) []attribute.KeyValue {
	return count{topicOf(call), errorType(call.Err)}.attributes()
}

// topicOf returns the topic of a call; empty if it has several.
func topicOf(call *client.Call) string {
	if len(call.Jobs) == 0 {
		if len(call.Topics) == 1 {
			return call.Topics[0]
		}
		return ""
	}
	topic := call.Jobs[0].Topic
	for _, job := range call.Jobs {
		if job.Topic != topic {
			return ""
		}
	}
	return topic
}

// count is what the jobs of a count have in common.
type count struct{ topic, errorType string }

func (c count) attributes() (list []attribute.KeyValue) {
	if c.topic != "" {
		list = append(list, semconv.MessagingDestinationName(c.topic))
	}
	if c.errorType != "" {
		list = append(list, semconv.ErrorTypeKey.String(c.errorType))
	}
	return list
}

func counted(jobs []client.CallJob) map[count]int64 {
	counts := map[count]int64{}
	for _, job := range jobs {
		counts[count{job.Topic, errorType(job.Err)}]++
	}
	return counts
}

// known are errors that errorType has names for. Those without a name are answers.
var known = []struct {
	err  error
	name string
}{
	{client.ErrExists, ""}, {client.ErrOtherTopic, "other_topic"}, {client.ErrExhausted, ""},
	{client.ErrInvalid, "invalid"}, {client.ErrLeaseLost, "lease_lost"}, {client.ErrLost, "lost"}, {client.ErrClosed, "closed"},
	{client.ErrOtherFailed, "other_failed"}, {context.Canceled, "canceled"}, {context.DeadlineExceeded, "timeout"},
}

// errorType returns the kind of an error, or "" for nil and for answers.
func errorType(err error) string {
	if err == nil {
		return ""
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return semconv.ErrorType(err).Value.AsString()
}
