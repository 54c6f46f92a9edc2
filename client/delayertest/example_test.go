package delayertest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/delayertest"
	"github.com/mix-basic/delayer/client/worker"
)

// Shop is the code under test in the examples.
type Shop struct {
	delayer *client.Client
	open    map[string]bool // orders
}

type Order struct{ Number string }

func (s *Shop) PlaceOrder(ctx context.Context, number string) error {
	s.open[number] = true
	m := client.Message{ID: number, Topic: "close_order", Body: fmt.Sprintf(`{"Number":%q}`, number)}
	_, err := s.delayer.Push(ctx, m, 30*time.Minute)
	return err
}

func (s *Shop) PayOrder(ctx context.Context, number string) error {
	_, err := s.delayer.Remove(ctx, number)
	return err
}

// Worker is the worker that runs in production.
func (s *Shop) Worker() *worker.Worker {
	mux := worker.NewMux()
	worker.Handle(mux, "close_order", func(_ context.Context, o Order) error {
		if !s.open[o.Number] {
			return errors.New("there is no such order")
		}
		delete(s.open, o.Number)
		return nil
	})
	return worker.New(s.delayer, mux, worker.Options{MaxAttempts: 2, Logger: slog.New(slog.DiscardHandler)})
}

func newShop(c *client.Client) *Shop { return &Shop{c, map[string]bool{}} }

// An order that is not paid within half an hour is closed.
func Example() {
	t := exampleT() // yours is the *testing.T of your test
	defer t.end()

	d := delayertest.New(t)
	shop := newShop(d.Client())
	if err := shop.PlaceOrder(t.Context(), "1001"); err != nil {
		t.Fatal(err)
	}
	d.Due(t, "close_order", 30*time.Minute) // a job is due then
	fmt.Println("open:", shop.open["1001"])

	d.Forward(t, 30*time.Minute)
	if err := d.Handle(t, shop.Worker(), "close_order"); err != nil {
		t.Error(err)
	}
	fmt.Println("open:", shop.open["1001"])
	// Output:
	// open: true
	// open: false
}

func ExampleDelayer_Due() {
	t := exampleT()
	defer t.end()

	d := delayertest.New(t)
	if err := newShop(d.Client()).PlaceOrder(t.Context(), "1001"); err != nil {
		t.Fatal(err)
	}
	job := d.Due(t, "close_order", 30*time.Minute)
	fmt.Println(job.ID, job.Body)
	// Output: 1001 {"Number":"1001"}
}

// A paid order no longer has a job.
func ExampleDelayer_Jobs() {
	t := exampleT()
	defer t.end()

	d := delayertest.New(t)
	shop := newShop(d.Client())
	if err := shop.PlaceOrder(t.Context(), "1001"); err != nil {
		t.Fatal(err)
	}
	for _, job := range d.Jobs(t, "close_order") {
		fmt.Println(job.ID, "is", job.State)
	}
	if err := shop.PayOrder(t.Context(), "1001"); err != nil {
		t.Fatal(err)
	}
	fmt.Println(len(d.Jobs(t, "close_order")))
	// Output:
	// 1001 is waiting
	// 0
}

// A failing job is retried and finally becomes a dead letter.
func ExampleDelayer_Handle() {
	t := exampleT()
	defer t.end()

	d := delayertest.New(t)
	w := newShop(d.Client()).Worker()
	m := client.Message{Topic: "close_order", Body: `{"Number":"unknown"}`}
	if _, err := d.Client().Push(t.Context(), m, 0); err != nil {
		t.Fatal(err)
	}
	fmt.Println(d.Handle(t, w, "close_order"))
	fmt.Println(d.Jobs(t, "close_order")[0].State)

	d.Forward(t, time.Hour) // longer than any backoff
	fmt.Println(d.Handle(t, w, "close_order"))
	fmt.Println(d.Jobs(t, "close_order")[0].State)
	// Output:
	// there is no such order
	// waiting
	// there is no such order
	// dead
}

// A consumer crashes, and its job is redelivered when its lease ends.
func ExampleDelayer_Forward() {
	t := exampleT()
	defer t.end()

	d := delayertest.New(t)
	c := d.Client()
	if _, err := c.Push(t.Context(), client.Message{Topic: "close_order", Body: "1001"}, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		delivery, err := c.Reserve(t.Context(), 30*time.Second, "close_order")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("attempt", delivery.Attempt)
		d.Forward(t, 30*time.Second)
	}
	// Output:
	// attempt 1
	// attempt 2
}

// A topic is paused overnight.
func ExampleDelayer_Forward_paused() {
	t := exampleT()
	defer t.end()

	d := delayertest.New(t)
	c := d.Client()
	if err := c.Pause(t.Context(), "mail", client.PauseOptions{For: 8 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Push(t.Context(), client.Message{Topic: "mail", Body: "7"}, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		d.Forward(t, 4*time.Hour)
		m, err := c.Pop(t.Context(), "mail")
		fmt.Println(m.Body, err)
	}
	// Output:
	//  delayer: pop "mail": no job is ready
	// 7 <nil>
}

// Code that computes due times itself uses Now instead of time.Now.
func ExampleDelayer_Now() {
	t := exampleT()
	defer t.end()

	d := delayertest.New(t)
	c, err := client.Open(d.URL()) // or d.Client()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	due := d.Now().Add(24 * time.Hour)
	if _, err := c.PushAt(t.Context(), client.Message{Topic: "remind", Body: "1001"}, due); err != nil {
		t.Fatal(err)
	}
	fmt.Println(d.Due(t, "remind", 24*time.Hour).Due.Equal(due))
	// Output: true
}

// exampleTest replaces the *testing.T that an Example lacks.
type exampleTest struct {
	testing.TB
	ctx      context.Context
	cleanups []func()
}

func exampleT() *exampleTest { return &exampleTest{ctx: context.Background()} }

func (*exampleTest) Helper()                           {}
func (e *exampleTest) Context() context.Context        { return e.ctx }
func (e *exampleTest) Cleanup(f func())                { e.cleanups = append(e.cleanups, f) }
func (*exampleTest) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (*exampleTest) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (*exampleTest) Error(args ...any)                 { fmt.Println(args...) }

func (e *exampleTest) end() {
	for n := len(e.cleanups) - 1; n >= 0; n-- {
		e.cleanups[n]()
	}
}

// A year of a schedule, including clock changes, takes a few hundred calls.
func ExampleDelayer_Forward_schedule() {
	t := exampleT()
	defer t.end()

	d := delayertest.New(t)
	invoice := client.Schedule{Name: "invoice", Cron: "30 2 1 * *", Zone: "Europe/Berlin", Topic: "invoice", Body: "all"}
	invoice.Options = client.JobOptions{ExpireAfter: 400 * 24 * time.Hour} // because nobody consumes them
	if _, err := d.Client().Schedules().Set(t.Context(), invoice); err != nil {
		t.Fatal(err)
	}
	d.Forward(t, 365*24*time.Hour)
	fmt.Println(len(d.Jobs(t, "invoice")))
	// Output: 12
}
