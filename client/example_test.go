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

// An order that is not paid within a while is closed.
func Example() {
	ctx := context.Background()
	c, err := client.Open(redisURL) // "redis://127.0.0.1:6379"
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// Orders are placed. (Let a while be 50 ms here.)
	for _, order := range []string{"order-1", "order-2"} {
		m := client.Message{ID: order, Topic: "close_order", Body: order + " was not paid"}
		if _, err := c.Push(ctx, m, 50*time.Millisecond); err != nil {
			log.Fatal(err)
		}
	}
	// One of them is paid.
	if _, err := c.Remove(ctx, "order-1"); err != nil {
		log.Fatal(err)
	}
	// Elsewhere somebody closes those that are not.
	m, err := c.BPop(ctx, 10*time.Second, "close_order")
	fmt.Println(m.Body, err)
	// Output: order-2 was not paid <nil>
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
	c := client.OpenPool(options)
	defer c.Close()

	_, err = c.Pop(context.Background(), "empty")
	fmt.Println(errors.Is(err, client.ErrEmpty))
	// Output: true
}

// A pool that the application has anyway.
func ExampleNew() {
	pool := &redis.Pool{
		Wait:      true,
		MaxActive: 20,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialURLContext(ctx, redisURL, redis.DialReadTimeout(3*time.Second))
		},
	}
	defer pool.Close()
	c := client.New(pool)
	defer c.Close()

	_, err := c.Pop(context.Background(), "empty")
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
	ctx := context.Background()
	c, err := client.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	id, err := c.Push(ctx, client.Message{Topic: "remind", Body: "tea"}, 5*time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	job, err := c.Get(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.State, time.Until(job.Due).Round(time.Minute))
	// Output: waiting 5m0s
}

// An ID of one's own makes a push repeatable: there is never more than one job of it.
func ExampleClient_Push_again() {
	ctx := context.Background()
	c, err := client.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	for _, body := range []string{"one item in the cart", "two items in the cart"} {
		m := client.Message{ID: "cart-17", Topic: "abandoned", Body: body}
		if _, err := c.Push(ctx, m, 20*time.Millisecond); err != nil {
			log.Fatal(err)
		}
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
	ctx := context.Background()
	c, err := client.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	due := time.Date(2099, time.December, 31, 23, 59, 0, 0, time.UTC)
	id, err := c.PushAt(ctx, client.Message{Topic: "fireworks", Body: "light"}, due)
	if err != nil {
		log.Fatal(err)
	}
	job, err := c.Get(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.Due.UTC())
	// Output: 2099-12-31 23:59:00 +0000 UTC
}

func ExampleClient_Pop() {
	ctx := context.Background()
	c, err := client.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	if _, err := c.Push(ctx, client.Message{ID: "1", Topic: "mail", Body: "hello"}, 0); err != nil {
		log.Fatal(err)
	}
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

// The loop of a consumer that ends with its context.
func ExampleClient_BPop() {
	ctx, stop := context.WithCancel(context.Background()) // signal.NotifyContext, as a rule
	defer stop()
	c, err := client.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	for n := 1; n <= 3; n++ {
		m := client.Message{Topic: "sms", Body: fmt.Sprint("message ", n)}
		if _, err := c.Push(ctx, m, time.Duration(n)*20*time.Millisecond); err != nil {
			log.Fatal(err)
		}
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
		log.Print(err) // Redis has been away for some seconds, or refuses
		time.Sleep(time.Second)
	}
	// Output:
	// message 1
	// message 2
	// message 3
}

func ExampleClient_Remove() {
	ctx := context.Background()
	c, err := client.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	id, err := c.Push(ctx, client.Message{Topic: "close_order", Body: "4712"}, time.Hour)
	if err != nil {
		log.Fatal(err)
	}
	for range 2 {
		removed, err := c.Remove(ctx, id)
		fmt.Println(removed, err)
	}
	// Output:
	// true <nil>
	// false <nil>
}

func ExampleClient_Get() {
	ctx := context.Background()
	c, err := client.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	m := client.Message{ID: "order-4713", Topic: "archive", Body: "4713"}
	if _, err := c.Push(ctx, m, 0, client.ReadyMaxLifetime(24*time.Hour)); err != nil {
		log.Fatal(err)
	}
	job, err := c.Get(ctx, "order-4713")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.State, job.Topic, job.Body, job.TTL.Round(time.Hour))

	_, err = c.Get(ctx, "unknown")
	fmt.Println(errors.Is(err, client.ErrNotFound))
	// Output:
	// ready archive 4713 24h0m0s
	// true
}

func ExampleClient_Reschedule() {
	ctx := context.Background()
	c, err := client.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	m := client.Message{ID: "session-9", Topic: "log_out", Body: "9"}
	if _, err := c.Push(ctx, m, time.Minute); err != nil {
		log.Fatal(err)
	}
	// The user did something: another half hour from now.
	if err := c.Reschedule(ctx, "session-9", 30*time.Minute); err != nil {
		log.Fatal(err)
	}
	job, err := c.Get(ctx, "session-9")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(time.Until(job.Due).Round(time.Minute))
	// Output: 30m0s
}

func ExampleIfExists() {
	ctx := context.Background()
	c, err := client.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	m := client.Message{ID: "report-2018-10", Topic: "report", Body: "October"}
	for range 2 {
		_, err = c.Push(ctx, m, time.Hour, client.IfExists(client.Refuse))
		fmt.Println(err)
	}
	// However often something happens, at most a minute passes until the report.
	_, err = c.Push(ctx, m, time.Minute, client.IfExists(client.KeepEarlier))
	fmt.Println(err)
	// Output:
	// <nil>
	// delayer: push "report-2018-10": job exists
	// <nil>
}

func ExampleReadyMaxLifetime() {
	ctx := context.Background()
	c, err := client.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	// Of no use to anybody ten minutes after it fell due.
	m := client.Message{Topic: "weather", Body: "rain"}
	id, err := c.Push(ctx, m, time.Hour, client.ReadyMaxLifetime(10*time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	job, err := c.Get(ctx, id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.TTL.Round(time.Minute))
	// Output: 1h10m0s
}

// To hear of jobs that nobody took in time.
func ExampleWithStale() {
	ctx := context.Background()
	c, err := client.Open(redisURL, client.WithStale(func(ids []string) {
		fmt.Println("too late:", ids)
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	m := client.Message{ID: "order-4714", Topic: "late", Body: "4714"}
	if _, err := c.Push(ctx, m, 0, client.ReadyMaxLifetime(time.Millisecond)); err != nil {
		log.Fatal(err)
	}
	for job := error(nil); !errors.Is(job, client.ErrNotFound); { // until its lifetime is over
		_, job = c.Get(ctx, "order-4714")
	}
	_, err = c.Pop(ctx, "late")
	fmt.Println(errors.Is(err, client.ErrEmpty), c.Stats().Stale)
	// Output:
	// too late: [order-4714]
	// true 1
}

// Two applications that do not see each other's jobs. Each needs a server with
// its prefix.
func ExampleWithPrefix() {
	ctx := context.Background()
	shop, err := client.Open(redisURL, client.WithPrefix("shop:"))
	if err != nil {
		log.Fatal(err)
	}
	defer shop.Close()
	forum, err := client.Open(redisURL, client.WithPrefix("forum:"))
	if err != nil {
		log.Fatal(err)
	}
	defer forum.Close()

	if _, err := shop.Push(ctx, client.Message{ID: "1", Topic: "mail", Body: "hello"}, 0); err != nil {
		log.Fatal(err)
	}
	_, err = forum.Pop(ctx, "mail")
	fmt.Println(errors.Is(err, client.ErrEmpty))
	m, err := shop.Pop(ctx, "mail")
	fmt.Println(m.Body, err)
	// Output:
	// true
	// hello <nil>
}

// Many jobs at once, for many users of a batch that was imported.
func ExampleClient_PushBatch() {
	ctx := context.Background()
	c, err := client.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	var jobs []client.Delayed
	for n := range 3 {
		m := client.Message{ID: fmt.Sprint("member-", n), Topic: "remind", Body: fmt.Sprint(n)}
		jobs = append(jobs, client.Delayed{Message: m, Delay: 27 * 24 * time.Hour})
	}
	if _, err := c.PushBatch(ctx, jobs); err != nil {
		log.Fatal(err)
	}

	// A job that exists is no harm to the others.
	jobs = append(jobs, client.Delayed{Message: client.Message{ID: "member-3", Topic: "remind", Body: "3"}})
	results, err := c.PushBatch(ctx, jobs, client.IfExists(client.Refuse))
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

// A consumer that takes what there is waits for the first job, and then takes
// the others with it.
func ExampleClient_PopBatch() {
	ctx := context.Background()
	c, err := client.Open(redisURL)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	for n := range 3 {
		if _, err := c.Push(ctx, client.Message{Topic: "rate", Body: fmt.Sprint(n)}, 0); err != nil {
			log.Fatal(err)
		}
	}

	first, err := c.BPop(ctx, time.Minute, "rate")
	if err != nil {
		log.Fatal(err)
	}
	others, err := c.PopBatch(ctx, "rate", 100)
	if err != nil && !errors.Is(err, client.ErrEmpty) {
		log.Fatal(err)
	}
	for _, m := range append([]client.Message{first}, others...) {
		fmt.Println(m.Body)
	}
	// Output:
	// 0
	// 1
	// 2
}
