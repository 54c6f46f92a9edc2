package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/devredis"
)

// The jobs of one topic. Producers push what the handler takes.
func ExampleRun() {
	type Order struct{ ID, Customer string }
	const greet client.Topic[Order] = "greet_typed"

	ctx, stop := context.WithCancel(context.Background()) // usually from signal.NotifyContext
	c, err := client.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := greet.Push(ctx, c, Order{"order-1", "Ann"}, 20*time.Millisecond); err != nil {
		log.Fatal(err)
	}

	err = worker.Run(ctx, c, greet, func(ctx context.Context, o Order) error {
		fmt.Println(o.Customer, "ordered", o.ID)
		stop()
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: Ann ordered order-1
}

// A worker handles the jobs of its mux's topics until its context ends.
func ExampleWorker() {
	c, err := client.Open(redisURL) // "redis://127.0.0.1:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	// In another program: close the order if it is not paid in time.
	m := client.Message{ID: "order-1", Topic: "close_order", Body: "order-1 was not paid"}
	if _, err := c.Push(context.Background(), m, 20*time.Millisecond); err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithCancel(context.Background()) // usually from signal.NotifyContext
	mux := worker.NewMux()
	mux.HandleFunc("close_order", func(ctx context.Context, job *worker.Job) error {
		fmt.Println(job.Body, "at attempt", job.Attempt)
		stop()
		return nil
	})
	if err := worker.New(c, mux, worker.Options{Concurrency: 20}).Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: order-1 was not paid at attempt 1
}

// Bodies of typed values are JSON.
func ExampleHandle() {
	type Order struct{ ID, Customer string }
	handled := make(chan bool)
	mux := worker.NewMux()
	worker.Handle(mux, "greet", func(ctx context.Context, o Order) error {
		fmt.Println(o.Customer, "ordered", o.ID, "in job", worker.JobOf(ctx).ID)
		handled <- true
		return nil
	})

	run(mux, client.Message{ID: "job-1", Topic: "greet", Body: `{"ID": "order-1", "Customer": "Ann"}`}, handled)
	// Output: Ann ordered order-1 in job job-1
}

// Values pushed to one group are handled together.
func ExampleHandleGroup() {
	const comments client.Topic[string] = "comments"
	c, err := client.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	// In another program: a user gets one mail, a minute after the last mention or with the third.
	ctx, stop := context.WithCancel(context.Background())
	group := client.Group{Key: "ann", Max: 3, Quiet: time.Minute, Longest: time.Hour}
	for _, text := range []string{"first", "second", "third"} {
		if _, err := comments.Push(ctx, c, text, 0, group); err != nil {
			log.Fatal(err)
		}
	}

	mux := worker.NewMux()
	worker.HandleGroup(mux, comments, func(_ context.Context, texts []string) error {
		fmt.Println(len(texts), "comments:", strings.Join(texts, ", "))
		stop()
		return nil
	})
	if err := worker.New(c, mux, worker.Options{}).Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output: 3 comments: first, second, third
}

// Bodies in other formats need a function that decodes them.
func ExampleHandleWith() {
	decode := func(body []byte, value any) error {
		*value.(*[]string) = strings.Split(string(body), ",")
		return nil
	}
	handled := make(chan bool)
	mux := worker.NewMux()
	worker.HandleWith(mux, "list", decode, func(_ context.Context, words []string) error {
		fmt.Println(len(words), words)
		handled <- true
		return nil
	})

	run(mux, client.Message{Topic: "list", Body: "a,b,c"}, handled)
	// Output: 3 [a b c]
}

// Middleware wraps all handlers. It gets a panic as an error.
func ExampleMux_Use() {
	handled := make(chan bool)
	withoutTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	log := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	mux := worker.NewMux()
	mux.Use(func(next worker.Handler) worker.Handler {
		return worker.HandlerFunc(func(ctx context.Context, job *worker.Job) error {
			err := next.Handle(ctx, job)
			if panicked := new(worker.PanicError); errors.As(err, &panicked) {
				log.Error("panic", append(job.LogArgs(), "value", panicked.Value)...)
				err = worker.Bury(err)
			}
			return err
		})
	})
	mux.HandleFunc("used", func(context.Context, *worker.Job) error { panic("no such page") })
	hooks := worker.Hooks{Buried: func(*worker.Job, error) { handled <- true }}

	runWith(mux, worker.Options{Hooks: hooks, Logger: quiet}, client.Message{ID: "job-2", Topic: "used", Body: "body"}, handled)
	// Output: level=ERROR msg=panic topic=used job=job-2 attempt=1 value="no such page"
}

// The other service returns the time of the next try.
func ExampleRetryAfter() {
	handled := make(chan bool)
	mux := worker.NewMux()
	mux.HandleFunc("mail", func(_ context.Context, job *worker.Job) error {
		if job.Attempt == 1 {
			return worker.RetryAfter(errors.New("503: try again after 10 ms"), 10*time.Millisecond)
		}
		fmt.Println("sent at attempt", job.Attempt)
		handled <- true
		return nil
	})

	run(mux, client.Message{Topic: "mail", Body: "hello"}, handled)
	// Output: sent at attempt 2
}

// The job comes too early: the attempt does not count.
func ExampleRelease() {
	asked, handled := 0, make(chan bool)
	mux := worker.NewMux()
	mux.HandleFunc("ship", func(_ context.Context, job *worker.Job) error {
		if asked++; asked < 3 {
			return worker.Release(10 * time.Millisecond)
		}
		fmt.Println("shipped at attempt", job.Attempt)
		handled <- true
		return nil
	})

	run(mux, client.Message{Topic: "ship", Body: "order-3"}, handled)
	// Output: shipped at attempt 1
}

// The other service is overloaded: no consumer sends it anything for a while.
func ExampleThrottle() {
	asked, handled := 0, make(chan bool)
	mux := worker.NewMux()
	mux.HandleFunc("sms", func(_ context.Context, job *worker.Job) error {
		if asked++; asked == 1 {
			return worker.Throttle(10 * time.Millisecond) // the Retry-After of an HTTP 429
		}
		fmt.Println("sent at attempt", job.Attempt)
		handled <- true
		return nil
	})

	run(mux, client.Message{Topic: "sms", Body: "hello"}, handled)
	// Output: sent at attempt 1
}

// A retry cannot help: the job becomes a dead letter.
func ExampleBury() {
	buried := make(chan bool)
	mux := worker.NewMux()
	mux.HandleFunc("charge", func(context.Context, *worker.Job) error {
		return worker.Bury(errors.New("no such customer"))
	})
	hooks := worker.Hooks{Buried: func(job *worker.Job, err error) {
		fmt.Println(job.ID, "is a dead letter:", err)
		buried <- true
	}}

	runWith(mux, worker.Options{Hooks: hooks, Logger: quiet}, client.Message{ID: "job-4", Topic: "charge", Body: "customer-9"}, buried)
	// Output: job-4 is a dead letter: no such customer
}

// One topic has priority; another is limited to two at a time and ten per second, and never waits more than an hour for a retry.
func ExampleTopicOptions() {
	handled := make(chan bool)
	handle := func(_ context.Context, job *worker.Job) error {
		fmt.Println(job.Topic)
		handled <- true
		return nil
	}
	mux := worker.NewMux()
	mux.HandleFunc("urgent", handle, worker.TopicOptions{Priority: 1})
	mux.HandleFunc("report", handle, worker.TopicOptions{Concurrency: 2, Rate: 10, Backoff: func(job *worker.Job, err error) time.Duration {
		return min(worker.DefaultBackoff(job, err), time.Hour)
	}})

	run(mux, client.Message{Topic: "report", Body: "body"}, handled)
	// Output: report
}

// A program is started for each job.
func ExampleWorker_RunOne() {
	redis, err := devredis.Start("127.0.0.1:0") // your program connects to a real Redis
	if err != nil {
		log.Fatal(err)
	}
	defer redis.Close()
	c, err := client.OpenPool(client.PoolOptions{Addr: redis.Addr})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	ctx := context.Background()
	if _, err := c.Push(ctx, client.Message{Topic: "close_order", Body: "1001"}, 0); err != nil {
		log.Fatal(err)
	}

	mux := worker.NewMux()
	mux.HandleFunc("close_order", func(_ context.Context, job *worker.Job) error {
		fmt.Println("closing", job.Body)
		return nil
	})
	w := worker.New(c, mux, worker.Options{})
	job, err := w.RunOne(ctx, "close_order")
	fmt.Println(job.Attempt, err)
	job, err = w.RunOne(ctx, "close_order")
	fmt.Println(job, err)
	// Output:
	// closing 1001
	// 1 <nil>
	// <nil> delayer: fetch: no job is ready
}
