package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
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

// reserved pushes a job and reserves it.
func reserved(ctx context.Context, c *client.Client, m client.Message) *client.Delivery {
	if _, err := c.Push(ctx, m, 0); err != nil {
		log.Fatal(err)
	}
	d, err := c.Reserve(ctx, time.Minute, time.Minute, m.Topic)
	if err != nil {
		log.Fatal(err)
	}
	return d
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

// New uses a pool that the application already has.
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
	ctx, c := open()
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

// A topic that is declared with its type accepts values of that type, as JSON. Package worker handles them.
func ExampleTopic() {
	type Order struct{ ID, Customer string }
	const closeOrder client.Topic[Order] = "close_typed"

	ctx, c := open()
	defer c.Close()
	if _, err := closeOrder.Push(ctx, c, Order{"order-1", "Ann"}, 0); err != nil {
		log.Fatal(err)
	}
	// With your own ID:
	m, err := closeOrder.Message(Order{"order-2", "Bob"})
	if err != nil {
		log.Fatal(err)
	}
	m.ID = "close-order-2"
	if _, err := c.Push(ctx, m, 0); err != nil {
		log.Fatal(err)
	}

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
	ctx, c := open()
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
	ctx, c := open()
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

// The loop of a consumer ends with its context.
func ExampleClient_BPop() {
	ctx, stop := context.WithCancel(context.Background()) // usually signal.NotifyContext
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
	ctx, c := open()
	defer c.Close()

	m := client.Message{ID: "session-9", Topic: "log_out", Body: "9"}
	if _, err := c.Push(ctx, m, time.Minute); err != nil {
		log.Fatal(err)
	}
	// The user is active again: wait another half hour from now.
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

func ExampleRefuse() {
	ctx, c := open()
	defer c.Close()

	m := client.Message{ID: "report-2018-10", Topic: "report", Body: "October"}
	for range 2 {
		_, err := c.Push(ctx, m, time.Hour, client.Refuse)
		fmt.Println(err)
	}
	// The report comes within a minute of the first event, no matter how many events follow.
	_, err := c.Push(ctx, m, time.Minute, client.KeepEarlier)
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
		id, err := c.Push(ctx, mail, 0, client.Once(24*time.Hour))
		fmt.Println(id, err)
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
		_, err := c.Push(ctx, order, 0, client.OnceAs(24*time.Hour, amount))
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
		job := client.Delayed{Message: client.Message{ID: "index-7", Topic: "index", Body: body}, Delay: 10 * time.Second}
		pushed, err := c.PushOne(ctx, job, client.Debounce(time.Minute))
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
		pushed, err := c.PushOne(ctx, client.Delayed{Message: client.Message{ID: "build-7", Topic: "build", Body: what}}, client.Follow)
		fmt.Println(pushed.Outcome, err)
	}
	changed("title")
	build, err := c.Reserve(ctx, time.Second, time.Minute, "build")
	if err != nil {
		log.Fatal(err)
	}
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
	mail := client.GroupOptions{Max: 2, Quiet: time.Minute, Longest: 15 * time.Minute}
	for _, body := range []string{`{"order":7,"is":"paid"}`, `{"order":7,"is":"sent"}`, `{"order":8,"is":"paid"}`} {
		pushed, err := c.PushOne(ctx, client.Delayed{Message: client.Message{Topic: "digest", Body: body}}, client.Group("customer-42", mail))
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

func ExampleReadyMaxLifetime() {
	ctx, c := open()
	defer c.Close()

	// The job is useless ten minutes after it falls due.
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

// The hook reports jobs that nobody took in time.
func ExampleWithStaleHook() {
	ctx := context.Background()
	c, err := client.Open(redisURL, client.WithStaleHook(func(ids []string) {
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
	fmt.Println(errors.Is(err, client.ErrEmpty), c.Counters().Stale)
	// Output:
	// too late: [order-4714]
	// true 1
}

// Two applications do not see each other's jobs. Each needs a server with its prefix.
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

// An import of many users pushes many jobs at once.
func ExampleClient_PushBatch() {
	ctx, c := open()
	defer c.Close()

	var jobs []client.Delayed
	for n := range 3 {
		m := client.Message{ID: fmt.Sprint("member-", n), Topic: "remind", Body: fmt.Sprint(n)}
		jobs = append(jobs, client.Delayed{Message: m, Delay: 27 * 24 * time.Hour})
	}
	if _, err := c.PushBatch(ctx, jobs); err != nil {
		log.Fatal(err)
	}

	// A job that exists does not affect the other jobs.
	jobs = append(jobs, client.Delayed{Message: client.Message{ID: "member-3", Topic: "remind", Body: "3"}})
	results, err := c.PushBatch(ctx, jobs, client.Refuse)
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

// A consumer waits for the first job, and then takes all other ready jobs with it.
func ExampleClient_PopBatch() {
	ctx, c := open()
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

// The job stays in Redis until it is acknowledged. If this consumer crashed, the job would be redelivered after 30 s,
// the lease that Reserve asks for here.
func ExampleClient_Reserve() {
	ctx, c := open()
	defer c.Close()

	if _, err := c.Push(ctx, client.Message{ID: "mail-1", Topic: "send_mail", Body: "hello"}, 0); err != nil {
		log.Fatal(err)
	}

	d, err := c.Reserve(ctx, time.Minute, 30*time.Second, "send_mail")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Body, "attempt", d.Attempt)
	if err := d.Ack(ctx); err != nil {
		log.Fatal(err) // ErrLeaseLost: it took too long, and another consumer may have the job now
	}
	_, err = c.Get(ctx, "mail-1")
	fmt.Println(errors.Is(err, client.ErrNotFound))
	// Output:
	// hello attempt 1
	// true
}

// A pool of workers handles ten jobs at a time, at most two of them reports.
func ExampleClient_Fetch() {
	ctx, c := open()
	defer c.Close()

	for n := range 3 {
		for _, topic := range []string{"report", "invoice"} {
			if _, err := c.Push(ctx, client.Message{Topic: topic, Body: fmt.Sprint(topic, " ", n)}, 0); err != nil {
				log.Fatal(err)
			}
		}
	}
	list, err := c.Fetch(ctx, client.FetchOptions{
		Topics: []client.FetchTopic{{Topic: "invoice"}, {Topic: "report", Max: 2}},
		Max:    10,
		Lease:  time.Minute,
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range list {
		fmt.Println(d.Body)
	}
	if _, err := c.AckBatch(ctx, list); err != nil {
		log.Fatal(err)
	}
	// Output:
	// invoice 0
	// invoice 1
	// invoice 2
	// report 0
	// report 1
}

// A job that fails is retried, with a longer delay each time, until its attempts are used up.
func ExampleDelivery_Retry() {
	ctx, c := open()
	defer c.Close()

	if _, err := c.Push(ctx, client.Message{ID: "hook", Topic: "webhook", Body: "b"}, 0, client.MaxAttempts(2)); err != nil {
		log.Fatal(err)
	}
	for {
		d, err := c.Reserve(ctx, time.Minute, time.Minute, "webhook")
		if err != nil {
			log.Fatal(err)
		}
		failure := errors.New("502 Bad Gateway")
		err = d.Retry(ctx, time.Duration(d.Attempt)*10*time.Millisecond, client.Cause(failure))
		if errors.Is(err, client.ErrExhausted) {
			break
		}
		fmt.Println("attempt", d.Attempt, err)
	}
	job, err := c.Get(ctx, "hook")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.State, job.Attempts, job.Error)
	// Output:
	// attempt 1 <nil>
	// dead 2 502 Bad Gateway
}

// A consumer that stops releases the jobs that it has not begun. Such a job loses no attempt.
func ExampleDelivery_Release() {
	ctx, c := open()
	defer c.Close()

	d := reserved(ctx, c, client.Message{ID: "release", Topic: "release", Body: "b"})
	if err := d.Release(ctx); err != nil {
		log.Fatal(err)
	}
	job, err := c.Get(ctx, "release")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.State, job.Attempts)
	// Output:
	// ready 0
}

// It is too early for this job: it is delivered again in an hour, and no attempt counts.
func ExampleDelivery_Snooze() {
	ctx, c := open()
	defer c.Close()

	d := reserved(ctx, c, client.Message{ID: "postpone", Topic: "postpone", Body: "b"})
	if err := d.Snooze(ctx, time.Hour); err != nil {
		log.Fatal(err)
	}
	job, err := c.Get(ctx, "postpone")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.State, time.Until(job.Due).Round(time.Minute), job.Attempts)
	// Output:
	// waiting 1h0m0s 0
}

// Work that takes longer than expected keeps its lease.
func ExampleDelivery_Extend() {
	ctx, c := open()
	defer c.Close()

	if _, err := c.Push(ctx, client.Message{Topic: "video", Body: "b"}, 0); err != nil {
		log.Fatal(err)
	}
	d, err := c.Reserve(ctx, time.Minute, time.Minute, "video")
	if err != nil {
		log.Fatal(err)
	}
	if err := d.Extend(ctx, time.Hour); err != nil {
		log.Fatal(err)
	}
	fmt.Println(time.Until(d.Deadline()).Round(time.Minute))
	if err := d.Ack(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1h0m0s
}

// A retry cannot help: the job becomes a dead letter, so that somebody can inspect it.
func ExampleDelivery_Bury() {
	ctx, c := open()
	defer c.Close()

	if _, err := c.Push(ctx, client.Message{ID: "bury", Topic: "bury", Body: "{"}, 0); err != nil {
		log.Fatal(err)
	}
	d, err := c.Reserve(ctx, time.Minute, time.Minute, "bury")
	if err != nil {
		log.Fatal(err)
	}
	if err := d.Bury(ctx, "not a JSON object"); err != nil {
		log.Fatal(err)
	}
	for letter, err := range c.Dead(ctx, "bury") {
		fmt.Println(letter.ID, letter.Reason, err)
	}
	// Output:
	// bury not a JSON object <nil>
}

// Each job has its own result: here the first job was removed meanwhile.
func ExampleClient_AckBatch() {
	ctx, c := open()
	defer c.Close()

	for n := range 2 {
		if _, err := c.Push(ctx, client.Message{ID: fmt.Sprint("ackbatch-", n), Topic: "ackbatch", Body: "b"}, 0); err != nil {
			log.Fatal(err)
		}
	}
	list, err := c.ReserveBatch(ctx, "ackbatch", 2, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.Remove(ctx, "ackbatch-0"); err != nil {
		log.Fatal(err)
	}
	results, err := c.AckBatch(ctx, list)
	for _, r := range results {
		fmt.Println(r.ID, r.Err)
	}
	fmt.Println(err)
	// Output:
	// ackbatch-0 the lease is lost: the job is gone
	// ackbatch-1 <nil>
	// delayer: ack batch: 1 of 2 jobs: "ackbatch-0": the lease is lost: the job is gone
}

// Leases are extended together; 0 extends each lease by its last duration.
func ExampleClient_ExtendBatch() {
	ctx, c := open()
	defer c.Close()

	for n := range 2 {
		if _, err := c.Push(ctx, client.Message{ID: fmt.Sprint("extendbatch-", n), Topic: "extendbatch", Body: "b"}, 0); err != nil {
			log.Fatal(err)
		}
	}
	list, err := c.ReserveBatch(ctx, "extendbatch", 2, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.ExtendBatch(ctx, list, 0); err != nil {
		log.Fatal(err)
	}
	for _, d := range list {
		fmt.Println(d.ID, d.Lease())
	}
	if _, err := c.AckBatch(ctx, list); err != nil {
		log.Fatal(err)
	}
	// Output:
	// extendbatch-0 1m0s
	// extendbatch-1 1m0s
}

// Dead returns the newest dead letter first.
func ExampleClient_Dead() {
	ctx, c := open()
	defer c.Close()

	for n := range 2 {
		d := reserved(ctx, c, client.Message{ID: fmt.Sprint("dead-", n), Topic: "dead", Body: "b"})
		if err := d.Bury(ctx, "no such order"); err != nil {
			log.Fatal(err)
		}
	}
	for letter, err := range c.Dead(ctx, "dead") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(letter.ID, letter.Attempts, letter.Reason)
	}
	// Output:
	// dead-1 1 no such order
	// dead-0 1 no such order
}

// The cause of the failure is fixed, so the job is requeued.
func ExampleClient_Requeue() {
	ctx, c := open()
	defer c.Close()

	if err := reserved(ctx, c, client.Message{ID: "again", Topic: "again", Body: "b"}).Bury(ctx, "no such order"); err != nil {
		log.Fatal(err)
	}
	if err := c.Requeue(ctx, "again"); err != nil {
		log.Fatal(err)
	}
	d, err := c.Reserve(ctx, time.Minute, time.Minute, "again")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.ID, d.Attempt, d.Ack(ctx))
	// Output:
	// again 1 <nil>
}

// Without IDs all dead letters of the topic are deleted.
func ExampleClient_DropDead() {
	ctx, c := open()
	defer c.Close()

	for n := range 2 {
		d := reserved(ctx, c, client.Message{ID: fmt.Sprint("drop-", n), Topic: "drop", Body: "b"})
		if err := d.Bury(ctx, "no such order"); err != nil {
			log.Fatal(err)
		}
	}
	n, err := c.DropDead(ctx, "drop", "drop-0")
	fmt.Println(n, err)
	n, err = c.DropAllDead(ctx, "drop")
	fmt.Println(n, err)
	// Output:
	// 1 <nil>
	// 1 <nil>
}

// The mail server is being moved, so no consumer sends mail meanwhile.
func ExampleClient_Pause() {
	ctx, c := open(client.WithPrefix("pause:"))
	defer c.Close()

	if err := c.Pause(ctx, "mail", client.PauseOptions{For: 2 * time.Hour, Note: "the server is moved, ask Eve"}); err != nil {
		log.Fatal(err)
	}
	if _, err := c.Push(ctx, client.Message{ID: "welcome-7", Topic: "mail", Body: "7"}, 0); err != nil {
		log.Fatal(err)
	}
	_, err := c.Pop(ctx, "mail")
	fmt.Println(err)
	paused, err := c.Paused(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range paused {
		fmt.Println(p.Topic, "for", p.End().Sub(p.Since), "as", p.Note)
	}
	was, err := c.Resume(ctx, "mail")
	fmt.Println("was paused:", was, err)
	m, err := c.Pop(ctx, "mail")
	fmt.Println(m.ID, err)
	// Output:
	// delayer: pop "mail": no job is ready
	// mail for 2h0m0s as the server is moved, ask Eve
	// was paused: true <nil>
	// welcome-7 <nil>
}

func ExampleClient_SetLimit() {
	ctx, c := open(client.WithPrefix("limit:"))
	defer c.Close()

	if err := c.SetLimit(ctx, "invoice", client.Limit{Concurrency: 2}); err != nil {
		log.Fatal(err)
	}
	for range 5 {
		if _, err := c.Push(ctx, client.Message{Topic: "invoice", Body: "b"}, 0); err != nil {
			log.Fatal(err)
		}
	}
	first, err := c.ReserveBatch(ctx, "invoice", 10, time.Minute)
	fmt.Println(len(first), err)
	_, err = c.ReserveBatch(ctx, "invoice", 10, time.Minute)
	fmt.Println(errors.Is(err, client.ErrEmpty))
	if err := first[0].Ack(ctx); err != nil {
		log.Fatal(err)
	}
	next, err := c.ReserveBatch(ctx, "invoice", 10, time.Minute)
	fmt.Println(len(next), err)
	// Output:
	// 2 <nil>
	// true
	// 1 <nil>
}

func ExampleClient_Stats() {
	ctx, c := open(client.WithPrefix("stats:"))
	defer c.Close()

	for _, delay := range []time.Duration{0, 0, time.Hour} {
		if _, err := c.Push(ctx, client.Message{Topic: "mail", Body: "b"}, delay); err != nil {
			log.Fatal(err)
		}
	}
	if _, err := c.Reserve(ctx, time.Minute, time.Minute, "mail"); err != nil {
		log.Fatal(err)
	}
	stats, err := c.Stats(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("waiting:", stats.Waiting)
	for _, t := range stats.Topics {
		fmt.Println(t.Topic, "ready:", t.Ready, "reserved:", t.Reserved, "dead:", t.Dead)
	}
	// Output:
	// waiting: 1
	// mail ready: 1 reserved: 1 dead: 0
}

// Counters counts lost replies, and entries whose jobs are gone.
func ExampleClient_Counters() {
	ctx, c := open()
	defer c.Close()

	if _, err := c.Pop(ctx, "counters"); !errors.Is(err, client.ErrEmpty) {
		log.Fatal(err)
	}
	fmt.Printf("%+v\n", c.Counters())
	// Output:
	// {Stale:0 Lost:0}
}

func ExampleMaxAttempts() {
	ctx, c := open()
	defer c.Close()

	if _, err := c.Push(ctx, client.Message{ID: "once", Topic: "once", Body: "b"}, 0, client.MaxAttempts(1)); err != nil {
		log.Fatal(err)
	}
	d, err := c.Reserve(ctx, time.Minute, time.Minute, "once")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Attempt, "of", d.MaxAttempts)
	fmt.Println(d.Retry(ctx, time.Minute))
	// Output:
	// 1 of 1
	// delayer: retry "once": the attempts are used up: the job is a dead letter now
}

// The producer knows how long the work takes. A consumer that asks for no lease gets this one.
func ExampleTTR() {
	ctx, c := open()
	defer c.Close()

	if _, err := c.Push(ctx, client.Message{Topic: "backup", Body: "b"}, 0, client.TTR(2*time.Hour)); err != nil {
		log.Fatal(err)
	}
	d, err := c.Reserve(ctx, time.Minute, 0, "backup")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.Lease(), d.Ack(ctx))
	// Output:
	// 2h0m0s <nil>
}

// A report is due each working day at seven in Berlin, for any number of servers and across clock changes. The schedule
// is in force when the call returns.
func ExampleClient_Schedule() {
	ctx, c := open()
	defer c.Close()

	next, err := c.Schedule(ctx, client.Schedule{
		Name:    "report",
		Cron:    "0 7 * * mon-fri",
		Zone:    "Europe/Berlin",
		Topic:   "report",
		Body:    `{"of":"yesterday"}`,
		Overlap: client.OverlapSkip, // if yesterday's report is not done yet
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(next.Format("15:04"), time.Until(next) <= 73*time.Hour)

	id, err := c.RunNow(ctx, "report") // one more report at once
	fmt.Println(strings.HasPrefix(id, "{report}@now-"), err)

	_, err = c.Schedule(ctx, client.Schedule{Name: "report", Cron: "0 7 * * mon-fry", Topic: "report", Body: "b"})
	fmt.Println(err)
	// Output:
	// 07:00 true
	// true <nil>
	// delayer: schedule "report": invalid cron: "0 7 * * mon-fry", day of the week, "fry" at character 13: want 0 to 7, or sun to sat
}

// A program has its schedules in its code and sets them when it starts. Schedules that are no longer in the list are
// deleted.
func ExampleClient_SetSchedules() {
	ctx, c := open()
	defer c.Close()

	for _, schedules := range [][]client.Schedule{
		{{Name: "clean", Cron: "@daily", Topic: "clean", Body: "all"}, {Name: "poll", Every: time.Minute, Topic: "poll", Body: "all"}},
		{{Name: "clean", Cron: "@daily", Topic: "clean", Body: "all"}}, // the next release of the program
	} {
		changed, err := c.SetSchedules(ctx, "shop", schedules)
		fmt.Println(changed, err)
	}
	// Output:
	// [clean poll] <nil>
	// [poll] <nil>
}
