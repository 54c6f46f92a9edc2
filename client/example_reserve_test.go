package client_test

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
)

// A pool of workers handles ten jobs at a time, at most two of them reports.
func ExampleClient_Fetch() {
	ctx, c := open()
	defer c.Close()

	for n := range 3 {
		for _, topic := range []string{"report", "invoice"} {
			must(c.Push(ctx, client.Message{Topic: topic, Body: fmt.Sprint(topic, " ", n)}, 0))
		}
	}
	list := must(c.Fetch(ctx, client.FetchOptions{
		Topics: []client.FetchTopic{{Topic: "invoice"}, {Topic: "report", Max: 2}},
		Max:    10,
		Lease:  time.Minute,
	}))
	for _, d := range list {
		fmt.Println(d.Body)
	}
	must(c.AckBatch(ctx, list))
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

	must(c.Push(ctx, client.Message{ID: "hook", Topic: "webhook", Body: "b"}, 0, client.JobOptions{MaxAttempts: 2}))
	for {
		d := must(c.Reserve(ctx, time.Minute, "webhook"))
		failure := errors.New("502 Bad Gateway")
		err := d.Retry(ctx, time.Duration(d.Attempt)*10*time.Millisecond, failure)
		if errors.Is(err, client.ErrExhausted) {
			break
		}
		fmt.Println("attempt", d.Attempt, err)
	}
	job := must(c.Get(ctx, "hook"))
	fmt.Println(job.State, job.Attempts, job.Error)
	// Output:
	// attempt 1 <nil>
	// dead 2 502 Bad Gateway
}

// A consumer that stops releases the jobs that it has not begun; one for which it is too early comes again in an hour. No
// attempt counts.
func ExampleDelivery_Release() {
	ctx, c := open()
	defer c.Close()

	for _, delay := range []time.Duration{0, time.Hour} {
		d := reserved(ctx, c, client.Message{ID: "release", Topic: "release", Body: "b"})
		ok(d.Release(ctx, delay))
		job := must(c.Get(ctx, "release"))
		fmt.Println(job.State, job.Attempts)
	}
	// Output:
	// ready 0
	// waiting 0
}

// Work that takes longer than expected keeps its lease.
func ExampleDelivery_Extend() {
	ctx, c := open()
	defer c.Close()

	must(c.Push(ctx, client.Message{Topic: "video", Body: "b"}, 0))
	d := must(c.Reserve(ctx, time.Minute, "video"))
	ok(d.Extend(ctx, time.Hour))
	fmt.Println(time.Until(d.Deadline()).Round(time.Minute))
	ok(d.Ack(ctx))
	// Output:
	// 1h0m0s
}

// A retry cannot help: the job becomes a dead letter, so that somebody can inspect it.
func ExampleDelivery_Bury() {
	ctx, c := open()
	defer c.Close()

	must(c.Push(ctx, client.Message{ID: "bury", Topic: "bury", Body: "{"}, 0))
	d := must(c.Reserve(ctx, time.Minute, "bury"))
	ok(d.Bury(ctx, errors.New("not a JSON object")))
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
		must(c.Push(ctx, client.Message{ID: fmt.Sprint("ackbatch-", n), Topic: "ackbatch", Body: "b"}, 0))
	}
	list := must(c.Fetch(ctx, client.FetchOptions{Topics: []client.FetchTopic{{Topic: "ackbatch"}}, Max: 2, Lease: time.Minute, NoWait: true}))
	must(c.Remove(ctx, "ackbatch-0"))
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

// Another program has reserved the job, and passes topic, ID and token on.
func ExampleClient_Delivery() {
	ctx, c := open()
	defer c.Close()

	theirs := reserved(ctx, c, client.Message{ID: "passed-on", Topic: "passed_on", Body: "b"})
	d := c.Delivery(theirs.Topic, theirs.ID, theirs.Token)
	fmt.Println(d.Ack(ctx))
	fmt.Println(errors.Is(d.Extend(ctx, time.Minute), client.ErrLeaseLost))
	// Output:
	// <nil>
	// true
}

// Leases are extended together; 0 extends each lease by its last duration.
func ExampleClient_ExtendBatch() {
	ctx, c := open()
	defer c.Close()

	for n := range 2 {
		must(c.Push(ctx, client.Message{ID: fmt.Sprint("extendbatch-", n), Topic: "extendbatch", Body: "b"}, 0))
	}
	list := must(c.Fetch(ctx, client.FetchOptions{Topics: []client.FetchTopic{{Topic: "extendbatch"}}, Max: 2, Lease: time.Minute, NoWait: true}))
	must(c.ExtendBatch(ctx, list, 0))
	for _, d := range list {
		fmt.Println(d.ID, d.Lease())
	}
	must(c.AckBatch(ctx, list))
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
		ok(d.Bury(ctx, errors.New("no such order")))
	}
	for letter, err := range c.Dead(ctx, "dead") {
		fmt.Println(letter.ID, letter.Attempts, letter.Reason, err)
	}
	// Output:
	// dead-1 1 no such order <nil>
	// dead-0 1 no such order <nil>
}

// The cause of the failure is fixed, so the job is requeued.
func ExampleClient_Requeue() {
	ctx, c := open()
	defer c.Close()

	ok(reserved(ctx, c, client.Message{ID: "again", Topic: "again", Body: "b"}).Bury(ctx, errors.New("no such order")))
	ok(c.Requeue(ctx, "again"))
	d := must(c.Reserve(ctx, time.Minute, "again"))
	fmt.Println(d.ID, d.Attempt, d.Ack(ctx))

	ok(reserved(ctx, c, client.Message{ID: "again", Topic: "again", Body: "b"}).Bury(ctx, errors.New("no such order")))
	fmt.Println(c.RequeueAll(ctx, "again"))
	// Output:
	// again 1 <nil>
	// 1 <nil>
}

// Remove deletes one dead letter, and DropAll the others of the topic.
func ExampleClient_DropAll() {
	ctx, c := open()
	defer c.Close()

	for n := range 2 {
		d := reserved(ctx, c, client.Message{ID: fmt.Sprint("drop-", n), Topic: "drop", Body: "b"})
		ok(d.Bury(ctx, errors.New("no such order")))
	}
	removed, err := c.Remove(ctx, "drop-0")
	fmt.Println(removed, err)
	n, err := c.DropAll(ctx, "drop")
	fmt.Println(n, err)
	// Output:
	// dead <nil>
	// 1 <nil>
}

// The mail server is being moved, so no consumer sends mail meanwhile.
func ExampleClient_Pause() {
	ctx, c := open(client.WithPrefix("pause:"))
	defer c.Close()

	ok(c.Pause(ctx, "mail", client.PauseOptions{For: 2 * time.Hour, Note: "the server is moved, ask Eve"}))
	must(c.Push(ctx, client.Message{ID: "welcome-7", Topic: "mail", Body: "7"}, 0))
	_, err := c.Pop(ctx, "mail")
	fmt.Println(err)
	paused := must(c.Paused(ctx))
	for _, p := range paused {
		fmt.Println(p.Topic, "for", p.End().Sub(p.Since), "as", p.Note)
	}
	was, err := c.Resume(ctx, "mail")
	fmt.Println("was paused:", was, err)
	m, err := c.Pop(ctx, "mail")
	fmt.Println(m.ID, err)

	ok(c.Throttle(ctx, "mail", time.Minute)) // the server has asked for less mail
	for _, p := range must(c.Paused(ctx)) {
		fmt.Println(p.Topic, "is throttled for", p.ThrottledUntil.Sub(p.ThrottledSince))
	}
	// Output:
	// delayer: pop "mail": no job is ready
	// mail for 2h0m0s as the server is moved, ask Eve
	// was paused: true <nil>
	// welcome-7 <nil>
	// mail is throttled for 1m0s
}

func ExampleClient_SetLimit() {
	ctx, c := open(client.WithPrefix("limit:"))
	defer c.Close()

	ok(c.SetLimit(ctx, "invoice", client.Limit{Concurrency: 2}))
	for range 5 {
		must(c.Push(ctx, client.Message{Topic: "invoice", Body: "b"}, 0))
	}
	ready := client.FetchOptions{Topics: []client.FetchTopic{{Topic: "invoice"}}, Max: 10, Lease: time.Minute, NoWait: true}
	first, err := c.Fetch(ctx, ready)
	fmt.Println(len(first), err)
	_, err = c.Fetch(ctx, ready)
	fmt.Println(errors.Is(err, client.ErrEmpty))
	ok(first[0].Ack(ctx))
	next, err := c.Fetch(ctx, ready)
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
		must(c.Push(ctx, client.Message{Topic: "mail", Body: "b"}, delay))
	}
	must(c.Reserve(ctx, time.Minute, "mail"))
	stats := must(c.Stats(ctx))
	fmt.Println("waiting:", stats.Waiting)
	for _, t := range stats.Topics {
		fmt.Println(t.Topic, "ready:", t.Ready, "reserved:", t.Reserved, "dead:", t.Dead)
	}
	// Output:
	// waiting: 1
	// mail ready: 1 reserved: 1 dead: 0
}

// A report is due each working day at seven in Berlin, for any number of servers and across clock changes. The schedule
// is in force when the call returns.
func ExampleSchedules_Set() {
	ctx, c := open()
	defer c.Close()

	next := must(c.Schedules().Set(ctx, client.Schedule{
		Name:    "report",
		Cron:    "0 7 * * mon-fri",
		Zone:    "Europe/Berlin",
		Topic:   "report",
		Body:    `{"of":"yesterday"}`,
		Overlap: "skip", // if yesterday's report is not done yet
	}))
	fmt.Println(next.Format("15:04"), time.Until(next) <= 73*time.Hour)

	id, err := c.Schedules().Run(ctx, "report") // one more report at once
	fmt.Println(strings.HasPrefix(id, "{report}@now-"), err)

	_, err = c.Schedules().Set(ctx, client.Schedule{Name: "report", Cron: "0 7 * * mon-fry", Topic: "report", Body: "b"})
	fmt.Println(err)
	// Output:
	// 07:00 true
	// true <nil>
	// delayer: set schedule "report": invalid cron: "0 7 * * mon-fry", day of the week, "fry" at character 13: want 0 to 7, or sun to sat
}

// A program has its schedules in its code and sets them when it starts. Schedules that are no longer in the list are
// deleted.
func ExampleSchedules_SetAll() {
	ctx, c := open()
	defer c.Close()

	for _, schedules := range [][]client.Schedule{
		{{Name: "clean", Cron: "@daily", Topic: "clean", Body: "all"}, {Name: "poll", Every: time.Minute, Topic: "poll", Body: "all"}},
		{{Name: "clean", Cron: "@daily", Topic: "clean", Body: "all"}}, // the next release of the program
	} {
		changed, err := c.Schedules().SetAll(ctx, "shop", schedules)
		fmt.Println(changed, err)
	}
	// Output:
	// [clean poll] <nil>
	// [poll] <nil>
}

// An operator sees what a schedule has done.
func ExampleSchedules_List() {
	ctx, c := open(client.WithPrefix("schedules:"))
	defer c.Close()

	all := c.Schedules()
	must(all.Set(ctx, client.Schedule{Name: "backup", Every: 24 * time.Hour, Topic: "backup", Body: "all"}))
	must(all.Run(ctx, "backup"))
	ok(all.Pause(ctx, "backup"))
	for _, s := range must(all.List(ctx)) {
		fmt.Println(s.Name, "jobs:", s.Jobs, "last:", s.Past[0].Result, "paused:", !s.Paused.IsZero())
	}
	ok(all.Resume(ctx, "backup"))
	fmt.Println(all.Remove(ctx, "backup"))
	// Output:
	// backup jobs: 1 last: run now paused: true
	// true <nil>
}
