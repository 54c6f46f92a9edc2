// Package delayerotel traces and measures what a Client and its workers do, with OpenTelemetry:
//
//	c, err := client.Open(url, client.WithHooks(delayerotel.Hooks()))
//
// # Spans
//
//   - A push has a PRODUCER span. Its context travels in the job's headers, as traceparent and tracestate.
//   - A worker's handler, or what is between client.Delivery.Handling and its end, has a CONSUMER span, and its context. A link leads
//     to the push. The span is not a child of the push, so that traces don't span days; see WithParent.
//   - A call that settles jobs has a CLIENT span. A worker's is a child of the handler's span.
//   - Pop, BPop and Reserve have a CLIENT span with links to the pushes, if they return jobs or fail. A wait
//     without a job, Fetch, with which workers take their jobs, and calls that extend leases have none.
//
// ErrExists and ErrExhausted are results, not errors of a span.
//
// # Metrics
//
//   - messaging.client.operation.duration: of each call, in seconds. It includes the wait for a job; waits without a job are left out.
//   - messaging.client.sent.messages, messaging.client.consumed.messages: jobs pushed, and jobs taken.
//   - messaging.process.duration: of handlers, in seconds.
//   - delayer.job.lateness: how long jobs had been ready when they were reserved, in seconds. It is known for first attempts
//     of reserved jobs: see client.Delivery.
//
// Names and attributes follow version 1.43.0 of OpenTelemetry's semantic conventions; messaging.system is "delayer", and the
// operation's name is the one that the call has in errors. Only delayer.job.attempt and delayer.push.outcome are Delayer's own.
package delayerotel

import (
	"context"

	"github.com/mix-basic/delayer/client"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"
	"go.opentelemetry.io/otel/trace"
)

const (
	scope  = "github.com/mix-basic/delayer/client/delayerotel"
	system = "delayer"
)

// Option configures Hooks.
type Option func(*options)

type options struct {
	tracers    trace.TracerProvider
	meters     metric.MeterProvider
	propagator propagation.TextMapPropagator
	parent     bool
}

// WithTracerProvider sets the source of tracers. The default is the global one.
func WithTracerProvider(p trace.TracerProvider) Option { return func(o *options) { o.tracers = p } }

// WithMeterProvider sets the source of meters. The default is the global one.
func WithMeterProvider(p metric.MeterProvider) Option { return func(o *options) { o.meters = p } }

// WithPropagator sets how a context is written to a job's headers. The default is propagation.TraceContext, which writes
// traceparent and tracestate.
func WithPropagator(p propagation.TextMapPropagator) Option {
	return func(o *options) { o.propagator = p }
}

// WithParent makes a handler's span a child of the push instead of linking to it, for jobs with short delays.
func WithParent() Option { return func(o *options) { o.parent = true } }

// Hooks returns hooks for client.WithHooks.
func Hooks(opts ...Option) client.Hooks {
	o := options{tracers: otel.GetTracerProvider(), meters: otel.GetMeterProvider(), propagator: propagation.TraceContext{}}
	for _, opt := range opts {
		opt(&o)
	}
	h := &hooks{
		tracer:     o.tracers.Tracer(scope, trace.WithSchemaURL(semconv.SchemaURL)),
		propagator: o.propagator,
		parent:     o.parent,
		meter:      newMeter(o.meters.Meter(scope, metric.WithSchemaURL(semconv.SchemaURL))),
	}
	return client.Hooks{Push: h.push, Deliver: h.deliver, Settle: h.settle, Handle: h.handle}
}

type meter struct {
	duration messagingconv.ClientOperationDuration
	sent     messagingconv.ClientSentMessages
	consumed messagingconv.ClientConsumedMessages
	handling messagingconv.ProcessDuration
	lateness metric.Float64Histogram
}

func newMeter(m metric.Meter) (made meter) {
	// The bounds that the conventions advise.
	bounds := metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
	errs := make([]error, 5)
	made.duration, errs[0] = messagingconv.NewClientOperationDuration(m, bounds)
	made.sent, errs[1] = messagingconv.NewClientSentMessages(m)
	made.consumed, errs[2] = messagingconv.NewClientConsumedMessages(m)
	made.handling, errs[3] = messagingconv.NewProcessDuration(m, bounds)
	made.lateness, errs[4] = m.Float64Histogram("delayer.job.lateness", metric.WithUnit("s"),
		metric.WithDescription("How long a job had been ready when it was reserved."),
		metric.WithExplicitBucketBoundaries(0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 10, 60, 300, 3600))
	for _, err := range errs {
		if err != nil {
			otel.Handle(err)
		}
	}
	return made
}

// extract returns a background context with what a job's headers say.
func (h *hooks) extract(job *client.CallJob) context.Context {
	if len(job.Headers) == 0 {
		return context.Background()
	}
	return h.propagator.Extract(context.Background(), propagation.MapCarrier(job.Headers))
}

// links returns links to the pushes of the jobs, one for each push.
func (h *hooks) links(jobs []client.CallJob) (links []trace.Link) {
	seen := map[trace.SpanID]bool{}
	for i := range jobs {
		push := trace.SpanContextFromContext(h.extract(&jobs[i]))
		if push.IsValid() && !seen[push.SpanID()] {
			seen[push.SpanID()] = true
			links = append(links, trace.Link{SpanContext: push})
		}
	}
	return links
}
