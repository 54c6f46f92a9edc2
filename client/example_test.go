package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
)

// An order that is not paid in time is closed.
func Example() {
	const closeOrder client.Topic[string] = "close_order"

	ctx, stop := context.WithCancel(context.Background()) // usually signal.NotifyContext
	defer stop()
	c, err := client.Open(redisURL) // "redis://127.0.0.1:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// Orders are placed. (For this example, the time to pay is 50 ms.)
	for _, order := range []string{"order-1", "order-2"} {
		if _, err := closeOrder.Push(ctx, c, order, 50*time.Millisecond, client.ID("close-"+order)); err != nil {
			log.Fatal(err)
		}
	}
	// The first order is paid.
	if _, err := c.Remove(ctx, "close-order-1"); err != nil {
		log.Fatal(err)
	}
	// A worker, perhaps in another program, closes the unpaid orders.
	err = worker.Run(ctx, c, closeOrder, func(_ context.Context, order string) error {
		fmt.Println("closing", order)
		stop()
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: closing order-2
}

// open returns the Client of an example. A program calls client.Open("redis://127.0.0.1:6379") and checks the error.
func open(opts ...client.Option) (context.Context, *client.Client) {
	c, err := client.Open(redisURL, opts...)
	if err != nil {
		log.Fatal(err)
	}
	return context.Background(), c
}

// must returns the value of a call that succeeds, and ok wants that one does. A program handles the error.
func must[T any](value T, err error) T { ok(err); return value }

func ok(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// reserved pushes a job and reserves it.
func reserved(ctx context.Context, c *client.Client, m client.Message) *client.Delivery {
	must(c.Push(ctx, m, 0))
	return must(c.Reserve(ctx, time.Minute, m.Topic))
}

func ExampleOpen() {
	c, err := client.Open(redisURL) // "redis://:password@127.0.0.1:6379/0"
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	_, err = c.Pop(context.Background(), "empty")
	fmt.Println(err)
	// Output: delayer: pop "empty": no job is ready
}

func ExampleClient_Push() {
	ctx, c := open()
	defer c.Close()

	pushed := must(c.Push(ctx, client.Message{Topic: "remind", Body: "tea"}, 5*time.Minute))
	job := must(c.Get(ctx, pushed.ID))
	fmt.Println(job.State, time.Until(job.Due).Round(time.Minute))
	// Output: waiting 5m0s
}

// A topic that is declared with its type accepts values of that type, as JSON. Package worker handles them.
func ExampleTopic() {
	type Order struct{ ID, Customer string }
	const closeOrder client.Topic[Order] = "close_typed"

	ctx, c := open()
	defer c.Close()
	must(closeOrder.Push(ctx, c, Order{"order-1", "Ann"}, 0, client.ID("close-order-1")))  // without ID, one is made
	must(closeOrder.PushAt(ctx, c, Order{"order-2", "Bob"}, time.Now().Add(-time.Minute))) // at once
	m := must(closeOrder.Message(Order{"order-3", "Eve"}))                                 // for PushBatch
	must(c.PushBatch(ctx, []client.Item{{Message: m}}))

	for range 3 {
		m, err := c.BPop(ctx, 0, string(closeOrder))
		fmt.Println(m.Topic, m.Body, err)
	}
	// Output:
	// close_typed {"ID":"order-1","Customer":"Ann"} <nil>
	// close_typed {"ID":"order-2","Customer":"Bob"} <nil>
	// close_typed {"ID":"order-3","Customer":"Eve"} <nil>
}

// The job stays in Redis until it is acknowledged. If this consumer crashed, the job would be redelivered after 30 s,
// the lease that Reserve asks for here.
func ExampleClient_Reserve() {
	ctx, c := open()
	defer c.Close()

	must(c.Push(ctx, client.Message{ID: "mail-1", Topic: "send_mail", Body: "hello"}, 0))

	d := must(c.Reserve(ctx, 30*time.Second, "send_mail"))
	fmt.Println(d.Body, "attempt", d.Attempt)
	ok(d.Ack(ctx)) // ErrLeaseLost: it took too long, and another consumer may have the job now
	_, err := c.Get(ctx, "mail-1")
	fmt.Println(errors.Is(err, client.ErrNotFound))
	// Output:
	// hello attempt 1
	// true
}

// A payment cancels the job. If a worker may be closing the order already, the database has to decide.
func ExampleClient_Remove() {
	ctx, c := open()
	defer c.Close()

	must(c.Push(ctx, client.Message{ID: "close-7", Topic: "close_paid", Body: "7"}, time.Hour))
	was := must(c.Remove(ctx, "close-7"))
	fmt.Println(was, was == client.StateWaiting)

	reserved(ctx, c, client.Message{ID: "close-8", Topic: "close_paid", Body: "8"})
	_, err := c.RemoveUnlessReserved(ctx, "close-8")
	fmt.Println(errors.Is(err, client.ErrReserved))
	fmt.Println(c.Remove(ctx, "close-8"))
	// Output:
	// waiting true
	// true
	// reserved <nil>
}

func ExampleClient_Get() {
	ctx, c := open()
	defer c.Close()

	m := client.Message{ID: "order-4713", Topic: "archive", Body: "4713"}
	must(c.Push(ctx, m, 0, client.JobOptions{ExpireAfter: 24 * time.Hour}))
	job := must(c.Get(ctx, "order-4713"))
	fmt.Println(job.State, job.Topic, job.Body, job.TTL.Round(time.Hour))

	_, err := c.Get(ctx, "unknown")
	fmt.Println(errors.Is(err, client.ErrNotFound))
	// Output:
	// ready archive 4713 24h0m0s
	// true
}

func ExampleClient_Reschedule() {
	ctx, c := open()
	defer c.Close()

	m := client.Message{ID: "session-9", Topic: "log_out", Body: "9"}
	must(c.Push(ctx, m, time.Minute))
	// The user is active again: wait another half hour from now.
	ok(c.Reschedule(ctx, "session-9", 30*time.Minute))
	job := must(c.Get(ctx, "session-9"))
	fmt.Println(time.Until(job.Due).Round(time.Minute))
	// Output: 30m0s
}

func ExampleClient_PushAt() {
	ctx, c := open()
	defer c.Close()

	due := time.Date(2099, time.December, 31, 23, 59, 0, 0, time.UTC)
	pushed := must(c.PushAt(ctx, client.Message{Topic: "fireworks", Body: "light"}, due))
	job := must(c.Get(ctx, pushed.ID))
	fmt.Println(job.Due.UTC())
	// Output: 2099-12-31 23:59:00 +0000 UTC
}

func ExampleClient_Pop() {
	ctx, c := open()
	defer c.Close()

	must(c.Push(ctx, client.Message{ID: "1", Topic: "mail", Body: "hello"}, 0))
	for {
		m, err := c.Pop(ctx, "mail")
		if errors.Is(err, client.ErrEmpty) {
			fmt.Println("nothing to do")
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.ID, m.Body)
	}
	// Output:
	// 1 hello
	// nothing to do
}

// The loop of a consumer ends with its context.
func ExampleClient_BPop() {
	ctx, stop := context.WithCancel(context.Background()) // usually signal.NotifyContext
	defer stop()
	c := must(client.Open(redisURL))
	defer c.Close()

	for n := 1; n <= 3; n++ {
		m := client.Message{Topic: "sms", Body: fmt.Sprint("message ", n)}
		must(c.Push(ctx, m, time.Duration(n)*20*time.Millisecond))
	}
	for {
		m, err := c.BPop(ctx, 0, "urgent", "sms")
		if err == nil {
			fmt.Println(m.Body)
			if m.Body == "message 3" {
				stop()
			}
			continue
		}
		if ctx.Err() != nil {
			break
		}
		log.Print(err) // Redis has been unreachable for some seconds, or refuses the call
		time.Sleep(time.Second)
	}
	// Output:
	// message 1
	// message 2
	// message 3
}

// A consumer takes up to 100 jobs with one call.
func ExampleClient_Fetch_pop() {
	ctx, c := open()
	defer c.Close()

	for n := range 3 {
		must(c.Push(ctx, client.Message{Topic: "rate", Body: fmt.Sprint(n)}, 0))
	}

	rates := client.FetchOptions{Topics: []client.FetchTopic{{Topic: "rate"}}, Max: 100, Pop: true}
	for _, d := range must(c.Fetch(ctx, rates)) {
		fmt.Println(d.Body)
	}
	// Output:
	// 0
	// 1
	// 2
}

// The hook reports jobs that nobody took in time.
func ExampleWithHooks() {
	ctx, c := open(client.WithHooks(client.Hooks{Stale: func(ids []string) { fmt.Println("too late:", ids) }}))
	defer c.Close()

	m := client.Message{ID: "order-4714", Topic: "late", Body: "4714"}
	must(c.Push(ctx, m, 0, client.JobOptions{ExpireAfter: time.Millisecond}))
	for job := error(nil); !errors.Is(job, client.ErrNotFound); { // until its lifetime is over
		_, job = c.Get(ctx, "order-4714")
	}
	_, err := c.Pop(ctx, "late")
	fmt.Println(errors.Is(err, client.ErrEmpty))
	// Output:
	// too late: [order-4714]
	// true
}

// A hook sees each push, here to count them. Module client/delayerotel has hooks for OpenTelemetry.
func ExampleHooks() {
	count := func(ctx context.Context, call *client.Call) (context.Context, func()) {
		return ctx, func() { fmt.Println(call.Operation, call.Jobs[0].Topic, call.Jobs[0].Outcome, call.Err) }
	}
	ctx, c := open(client.WithHooks(client.Hooks{Push: count}))
	defer c.Close()

	must(c.Push(ctx, client.Message{Topic: "counted", Body: "b"}, 0))
	// Output: push counted created <nil>
}

// Two applications share a Redis and its connections, and do not see each other's jobs. Each needs a server with its prefix.
func ExampleWithPrefix() {
	r := must(client.Connect(must(client.ParseURL(redisURL))))
	defer r.Close()
	ctx := context.Background()
	shop, forum := must(client.New(r, client.WithPrefix("shop:"))), must(client.New(r, client.WithPrefix("forum:")))
	defer shop.Close()
	defer forum.Close()

	must(shop.Push(ctx, client.Message{ID: "1", Topic: "mail", Body: "hello"}, 0))
	_, err := forum.Pop(ctx, "mail")
	fmt.Println(errors.Is(err, client.ErrEmpty))
	m, err := shop.Pop(ctx, "mail")
	fmt.Println(m.Body, err)
	// Output:
	// true
	// hello <nil>
}

func ExampleOpenPool() {
	options, err := client.ParseURL(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	options.MaxActive = 8
	c, err := client.OpenPool(options, client.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(c.Ping(context.Background()), c.Close())
	fmt.Println(errors.Is(c.Ping(context.Background()), client.ErrClosed))
	// Output:
	// <nil> <nil>
	// true
}

// A Client on a pool that the application already has.
func ExampleUsePool() {
	pool := &redis.Pool{
		Wait:      true,
		MaxActive: 20,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialURLContext(ctx, redisURL, redis.DialReadTimeout(3*time.Second))
		},
	}
	defer pool.Close()
	c, err := client.New(client.UsePool(pool, 1))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	_, err = c.Pop(context.Background(), "empty")
	fmt.Println(errors.Is(err, client.ErrEmpty))
	// Output: true
}

func ExampleParseURL() {
	options, err := client.ParseURL("rediss://delayer:secret@redis.example.com/2")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(options.Addr, options.Username, options.Database, options.TLS != nil)
	// Output: redis.example.com:6379 delayer 2 true
}
