package delayerotel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/delayerotel"
	"github.com/mix-basic/delayer/internal/devredis"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// redisURL is a Redis for the examples. The tests start their own.
var redisURL string

func TestMain(m *testing.M) {
	redis, err := devredis.Start("127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	redisURL = "redis://" + redis.Addr
	code := redistest.Run(m, 0)
	redis.Close()
	os.Exit(code)
}

var (
	check = redistest.Check
	until = redistest.Until
)

// fixture is a Client with hooks on the test's Redis.
type fixture struct {
	*client.Client
	*redistest.Server
	spans   *tracetest.SpanRecorder
	tracers *trace.TracerProvider
	metrics *metric.ManualReader
	taken   int // spans that earlier calls of done have returned
}

func start(t testing.TB, opts ...delayerotel.Option) *fixture {
	t.Helper()
	f := &fixture{Server: redistest.Start(t), spans: tracetest.NewSpanRecorder(), metrics: metric.NewManualReader()}
	f.tracers = trace.NewTracerProvider(trace.WithSpanProcessor(f.spans))
	f.Client = f.open(append([]delayerotel.Option{delayerotel.WithTracerProvider(f.tracers), delayerotel.WithMeterProvider(metric.NewMeterProvider(metric.WithReader(f.metrics)))}, opts...)...)
	return f
}

func (f *fixture) open(opts ...delayerotel.Option) *client.Client {
	f.TB.Helper()
	c, err := client.Open("redis://"+f.Addr, client.WithHooks(delayerotel.Hooks(opts...)))
	check(f.TB, err)
	f.TB.Cleanup(func() { c.Close() })
	return c
}

func (f *fixture) serve() {
	f.TB.Helper()
	redistest.Background(f.TB, clienttest.Server(f.Pool(), server.Options{}).Run)
}

func (f *fixture) push(m client.Message, delay time.Duration, opts ...client.PushOption) {
	f.TB.Helper()
	m.Topic, m.Body = "t", "1"
	_, err := f.Push(f.TB.Context(), m, delay, opts...)
	if err != nil && !errors.Is(err, client.ErrExists) {
		f.TB.Fatal(err)
	}
}

// done returns the spans that have ended since the last call, and that none is open.
func (f *fixture) done() []trace.ReadOnlySpan {
	f.TB.Helper()
	all := f.spans.Ended()
	if begun := f.spans.Started(); len(begun) != len(all) {
		f.TB.Errorf("%d spans have begun, and %d ended", len(begun), len(all))
	}
	spans := all[f.taken:]
	f.taken = len(all)
	return spans
}

// spanText returns a span as "kind name, n links: attributes", without what all of them have.
func spanText(s trace.ReadOnlySpan) string {
	var list []string
	for _, a := range s.Attributes() {
		if key := string(a.Key); key != "messaging.system" && key != "messaging.operation.name" {
			list = append(list, strings.TrimPrefix(key, "messaging.")+"="+a.Value.String())
		}
	}
	slices.Sort(list)
	text := fmt.Sprintf("%s %s, %d links: %s", s.SpanKind(), s.Name(), len(s.Links()), strings.Join(list, " "))
	if s.Status().Description != "" {
		text += "; " + s.Status().Code.String()
	}
	return text
}

// points returns the measurements of all metrics, as "name attributes count".
func (f *fixture) points() (list []string) {
	f.TB.Helper()
	var all metricdata.ResourceMetrics
	check(f.TB, f.metrics.Collect(f.TB.Context(), &all))
	add := func(name string, attributes attribute.Set, n any) {
		var texts []string
		for _, a := range attributes.ToSlice() {
			if a.Key == "messaging.system" && a.Value.AsString() != "delayer" {
				f.TB.Errorf("%s is of system %v", name, a.Value.String())
			}
			if a.Key != "messaging.system" {
				texts = append(texts, a.Value.String())
			}
		}
		slices.Sort(texts)
		list = append(list, fmt.Sprint(name, " ", texts, " ", n))
	}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			name := strings.TrimPrefix(m.Name, "messaging.") + " " + m.Unit
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					add(name, p.Attributes, p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					if seconds := p.Sum / float64(p.Count); seconds < 0 || seconds > redistest.HangBound.Seconds() {
						f.TB.Errorf("%s takes %v s on average", name, seconds)
					}
					add(name, p.Attributes, p.Count)
				}
			}
		}
	}
	slices.Sort(list)
	return list
}

func equal(t testing.TB, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// ended returns a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// A program that imports this package links the API of OpenTelemetry, but not its SDK.
func TestImports(t *testing.T) {
	list, err := exec.Command("go", "list", "-deps", ".").Output()
	check(t, err)
	if strings.Contains(string(list), "go.opentelemetry.io/otel/sdk") {
		t.Errorf("links the SDK:\n%s", list)
	}
}
