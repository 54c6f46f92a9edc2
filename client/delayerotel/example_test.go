package delayerotel_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/delayerotel"
	"github.com/mix-basic/delayer/client/worker"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// The span of a handler links to that of the push, perhaps of another program.
func Example() {
	spans := tracetest.NewInMemoryExporter() // instead of one for your collector
	tracers := trace.NewTracerProvider(trace.WithSyncer(spans))
	c, err := client.Open(redisURL, client.WithHooks(delayerotel.Hooks(delayerotel.WithTracerProvider(tracers))))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := c.Push(ctx, client.Message{Topic: "mail", Body: "hello"}, 0); err != nil {
		log.Fatal(err)
	}
	mux := worker.NewMux()
	mux.HandleFunc("mail", func(context.Context, *worker.Job) error { return nil })
	if _, err := worker.New(c, mux, worker.Options{}).RunOne(ctx, "mail"); err != nil {
		log.Fatal(err)
	}

	list := spans.GetSpans()
	for _, span := range list {
		fmt.Println(span.SpanKind, span.Name)
	}
	fmt.Println(list[1].Links[0].SpanContext.SpanID() == list[0].SpanContext.SpanID())
	// Output:
	// producer push mail
	// consumer handle mail
	// client ack mail
	// true
}
