package client_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/client"
)

// Your own ID makes a push repeatable: at most one job has this ID.
func ExampleClient_Push_again() {
	ctx, c := open()
	defer c.Close()

	for _, body := range []string{"one item in the cart", "two items in the cart"} {
		m := client.Message{ID: "cart-17", Topic: "abandoned", Body: body}
		pushed := must(c.Push(ctx, m, 20*time.Millisecond))
		fmt.Println("replaced:", pushed.Outcome == client.OutcomeReplaced)
	}
	m, err := c.BPop(ctx, 10*time.Second, "abandoned")
	fmt.Println(m.Body, err)
	_, err = c.Pop(ctx, "abandoned")
	fmt.Println(errors.Is(err, client.ErrEmpty))
	// Output:
	// replaced: false
	// replaced: true
	// two items in the cart <nil>
	// true
}

// An ID has one topic, which only an explicit Replace changes.
func ExampleIfExists() {
	ctx, c := open()
	defer c.Close()

	must(c.Push(ctx, client.Message{ID: "order-9", Topic: "close_unpaid", Body: "9"}, time.Hour))
	reminder := client.Message{ID: "order-9", Topic: "remind_unpaid", Body: "9"}
	_, err := c.Push(ctx, reminder, time.Minute)
	fmt.Println(errors.Is(err, client.ErrOtherTopic))
	pushed, err := c.Push(ctx, reminder, time.Minute, client.IfExists(client.Replace()))
	fmt.Println(pushed.Outcome, err)
	pushed, err = c.Push(ctx, reminder, time.Second, client.IfExists(client.KeepLater()))
	fmt.Println(pushed.Outcome, err)
	// Output:
	// true
	// replaced <nil>
	// kept <nil>
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

// The producer knows how long the work takes, how often to try it, and when it becomes useless. A consumer that names no
// lease gets this one.
func ExampleJobOptions() {
	ctx, c := open()
	defer c.Close()

	options := client.JobOptions{MaxAttempts: 1, Lease: 2 * time.Hour, ExpireAfter: 10 * time.Minute}
	must(c.Push(ctx, client.Message{ID: "backup-1", Topic: "backup", Body: "b"}, 0, options))
	fmt.Println("kept for", must(c.Get(ctx, "backup-1")).TTL.Round(time.Minute))
	d := must(c.Reserve(ctx, 0, "backup"))
	fmt.Println("attempt", d.Attempt, "of", d.MaxAttempts, "for", d.Lease())
	fmt.Println(d.Retry(ctx, time.Minute, nil))
	// Output:
	// kept for 10m0s
	// attempt 1 of 1 for 2h0m0s
	// delayer: retry "backup-1": the attempts are used up: the job is a dead letter now
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
