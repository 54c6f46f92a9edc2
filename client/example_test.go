package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

// An order that is not paid in time is closed.
func Example() {
	ctx := context.Background()
	c, err := client.Open(redisURL) // "redis://127.0.0.1:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// Orders are placed. (For this example, the time to pay is 50 ms.)
	for _, order := range []string{"order-1", "order-2"} {
		m := client.Message{ID: order, Topic: "close_order", Body: order + " was not paid"}
		if _, err := c.Push(ctx, m, 50*time.Millisecond); err != nil {
			log.Fatal(err)
		}
	}
	// The first order is paid.
	if _, err := c.Remove(ctx, "order-1"); err != nil {
		log.Fatal(err)
	}
	// Another program closes the unpaid orders.
	m, err := c.BPop(ctx, 10*time.Second, "close_order")
	fmt.Println(m.Body, err)
	// Output: order-2 was not paid <nil>
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

func ExampleOpenPool() {
	options, err := client.ParseURL(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	options.MaxActive = 8
	c, err := client.OpenPool(options)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	_, err = c.Pop(context.Background(), "empty")
	fmt.Println(errors.Is(err, client.ErrEmpty))
	// Output: true
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
	must(closeOrder.Push(ctx, c, Order{"order-1", "Ann"}, 0))
	// With your own ID:
	m := must(closeOrder.Message(Order{"order-2", "Bob"}))
	m.ID = "close-order-2"
	must(c.Push(ctx, m, 0))

	for range 2 {
		m, err := c.Pop(ctx, string(closeOrder))
		fmt.Println(m.Topic, m.Body, err)
	}
	// Output:
	// close_typed {"ID":"order-1","Customer":"Ann"} <nil>
	// close_typed {"ID":"order-2","Customer":"Bob"} <nil>
}

// Your own ID makes a push repeatable: at most one job has this ID.
func ExampleClient_Push_again() {
	ctx, c := open()
	defer c.Close()

	for _, body := range []string{"one item in the cart", "two items in the cart"} {
		m := client.Message{ID: "cart-17", Topic: "abandoned", Body: body}
		must(c.Push(ctx, m, 20*time.Millisecond))
	}
	m, err := c.BPop(ctx, 10*time.Second, "abandoned")
	fmt.Println(m.Body, err)
	_, err = c.Pop(ctx, "abandoned")
	fmt.Println(errors.Is(err, client.ErrEmpty))
	// Output:
	// two items in the cart <nil>
	// true
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

func ExampleRefuse() {
	ctx, c := open()
	defer c.Close()

	m := client.Message{ID: "report-2018-10", Topic: "report", Body: "October"}
	for range 2 {
		_, err := c.Push(ctx, m, time.Hour, client.IfExists(client.Refuse()))
		fmt.Println(err)
	}
	// The report comes within a minute of the first event, no matter how many events follow.
	_, err := c.Push(ctx, m, time.Minute, client.IfExists(client.KeepEarlier()))
	fmt.Println(err)
	// Output:
	// <nil>
	// delayer: push "report-2018-10": job exists
	// <nil>
}

func ExampleOnce() {
	ctx, c := open()
	defer c.Close()

	mail := client.Message{ID: "welcome-42", Topic: "mail", Body: "42"}
	for range 2 { // as if the first reply had been lost
		pushed, err := c.Push(ctx, mail, 0, client.IfExists(client.Once(24*time.Hour)))
		fmt.Println(pushed.ID, err)
		c.Pop(ctx, "mail")
	}
	// Output:
	// welcome-42 <nil>
	// welcome-42 delayer: push "welcome-42": job exists
}

func ExampleOnceAs() {
	ctx, c := open()
	defer c.Close()

	for _, amount := range []string{"10", "10", "20"} {
		order := client.Message{ID: "order-42", Topic: "pay", Body: amount}
		_, err := c.Push(ctx, order, 0, client.IfExists(client.OnceAs(24*time.Hour, amount)))
		fmt.Println(errors.Is(err, client.ErrExists), errors.Is(err, client.ErrReused))
	}
	// Output:
	// false false
	// true false
	// true true
}

func ExampleDebounce() {
	ctx, c := open()
	defer c.Close()

	// A document is indexed when nobody has changed it for 10 s, but at least once a minute.
	for _, body := range []string{"first draft", "second draft"} {
		m := client.Message{ID: "index-7", Topic: "index", Body: body}
		pushed, err := c.Push(ctx, m, 10*time.Second, client.IfExists(client.Debounce(time.Minute)))
		fmt.Println(pushed.Outcome, err)
	}
	// Output:
	// created <nil>
	// replaced <nil>
}

func ExampleFollow() {
	ctx, c := open()
	defer c.Close()

	// A site is built after each change, and never twice at the same time.
	changed := func(what string) {
		pushed, err := c.Push(ctx, client.Message{ID: "build-7", Topic: "build", Body: what}, 0, client.IfExists(client.Follow()))
		fmt.Println(pushed.Outcome, err)
	}
	changed("title")
	build := must(c.Reserve(ctx, time.Minute, "build"))
	changed("logo") // while it is being built
	fmt.Println(build.Body, build.Ack(ctx))
	next, err := c.Pop(ctx, "build")
	fmt.Println(next.Body, err)
	// Output:
	// created <nil>
	// followed <nil>
	// title <nil>
	// logo <nil>
}

func ExampleGroup() {
	ctx, c := open()
	defer c.Close()

	// A customer gets one mail about several events: a minute after the last event, a quarter of an hour after the
	// first one, or after 2 events, whichever comes first.
	mail := client.Group{Key: "customer-42", Max: 2, Quiet: time.Minute, Longest: 15 * time.Minute}
	for _, body := range []string{`{"order":7,"is":"paid"}`, `{"order":7,"is":"sent"}`, `{"order":8,"is":"paid"}`} {
		pushed, err := c.Push(ctx, client.Message{Topic: "digest", Body: body}, 0, mail)
		fmt.Println(pushed.Outcome, err)
	}
	m, err := c.Pop(ctx, "digest")
	fmt.Println(m.Body, err)
	// Output:
	// created <nil>
	// added <nil>
	// created <nil>
	// [{"order":7,"is":"paid"},{"order":7,"is":"sent"}] <nil>
}

func ExampleJobOptions() {
	ctx, c := open()
	defer c.Close()

	// The job is useless ten minutes after it falls due.
	m := client.Message{Topic: "weather", Body: "rain"}
	pushed := must(c.Push(ctx, m, time.Hour, client.JobOptions{ExpireAfter: 10 * time.Minute}))
	job := must(c.Get(ctx, pushed.ID))
	fmt.Println(job.TTL.Round(time.Minute))
	// Output: 1h10m0s
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

// Two applications do not see each other's jobs. Each needs a server with its prefix.
func ExampleWithPrefix() {
	ctx, shop := open(client.WithPrefix("shop:"))
	defer shop.Close()
	_, forum := open(client.WithPrefix("forum:"))
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

// An import of many users pushes many jobs at once.
func ExampleClient_PushBatch() {
	ctx, c := open()
	defer c.Close()

	var jobs []client.Item
	for n := range 3 {
		m := client.Message{ID: fmt.Sprint("member-", n), Topic: "remind", Body: fmt.Sprint(n)}
		jobs = append(jobs, client.Item{Message: m, Delay: 27 * 24 * time.Hour})
	}
	must(c.PushBatch(ctx, jobs))

	// A job that exists does not affect the other jobs.
	jobs = append(jobs, client.Item{Message: client.Message{ID: "member-3", Topic: "remind", Body: "3"}})
	results, err := c.PushBatch(ctx, jobs, client.IfExists(client.Refuse()))
	fmt.Println(errors.Is(err, client.ErrExists))
	for _, r := range results {
		fmt.Println(r.ID, r.Err)
	}
	// Output:
	// true
	// member-0 job exists
	// member-1 job exists
	// member-2 job exists
	// member-3 <nil>
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
