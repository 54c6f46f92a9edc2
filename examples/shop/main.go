// Command shop is a small shop. An order that is not paid in time is closed; a payment cancels that, by the order's
// ID. A reminder is sent by a worker, which tries again after a failure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
)

// order is the body of the jobs.
type order struct {
	Number int    `json:"number"`
	Mail   string `json:"mail"`
}

var (
	closeOrder = client.Topic[order]("close_order")
	remind     = client.Topic[order]("remind")
)

func main() {
	redis := flag.String("redis", "redis://127.0.0.1:6379", "the Redis of the daemon")
	toPay := flag.Duration("to-pay", 3*time.Second, "time to pay an order")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c, err := client.Open(*redis)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	s := &shop{Client: c, toPay: *toPay, closed: make(chan struct{}, 1)}

	working, done := context.WithCancel(ctx)
	finished := make(chan error, 1)
	go func() { finished <- s.work(working) }()
	if err := s.sell(ctx); err != nil {
		log.Fatal(err)
	}
	select {
	case <-s.closed: // the unpaid order
	case <-ctx.Done():
	}
	done()
	if err := <-finished; err != nil {
		log.Fatal(err)
	}
}

type shop struct {
	*client.Client
	orders orders
	toPay  time.Duration
	closed chan struct{}
}

// orders stands for a table of the shop's database: the states of orders that are not unpaid.
type orders struct{ states sync.Map }

// settle is a conditional update, which reports whether it has changed a row:
//
//	UPDATE orders SET state = 'closed' WHERE id = ? AND state = 'unpaid'
func (o *orders) settle(number int, state string) bool {
	_, settled := o.states.LoadOrStore(number, state)
	return !settled
}

// sell takes two orders, of which one is paid.
func (s *shop) sell(ctx context.Context) error {
	for _, o := range []order{{1001, "ann@example.com"}, {1002, "bob@example.com"}} {
		m, err := closeOrder.Message(o)
		if err != nil {
			return err
		}
		m.ID = jobOf(o)
		if _, err := s.Push(ctx, m, s.toPay); err != nil {
			return err
		}
		if _, err := remind.Push(ctx, s.Client, o, s.toPay/2); err != nil {
			return err
		}
		fmt.Println("order", o.Number, "is placed")
	}
	return s.pay(ctx, order{Number: 1001})
}

// pay cancels the closing of the order, by the job's ID, which the shop can derive. A worker may be closing the order at this moment, which
// Remove does not stop. So the database decides which of the two comes first, and the other changes nothing.
func (s *shop) pay(ctx context.Context, o order) error {
	if !s.orders.settle(o.Number, "paid") {
		return fmt.Errorf("order %d is closed: give the money back", o.Number)
	}
	was, err := s.Remove(ctx, jobOf(o))
	if err == nil {
		fmt.Printf("order %d is paid, its job was %s\n", o.Number, was)
	}
	return err
}

func jobOf(o order) string { return fmt.Sprintf("close-order-%d", o.Number) }

// work handles the jobs until ctx is done.
func (s *shop) work(ctx context.Context) error {
	mux := worker.NewMux()
	worker.Handle(mux, closeOrder, func(_ context.Context, o order) error {
		if !s.orders.settle(o.Number, "closed") {
			return nil // paid just now, or the job is delivered twice
		}
		fmt.Println("order", o.Number, "is closed")
		select {
		case s.closed <- struct{}{}:
		default:
		}
		return nil
	})
	worker.Handle(mux, remind, func(ctx context.Context, o order) error {
		if worker.JobOf(ctx).Attempt == 1 && o.Number == 1002 {
			return errors.New("the mail server is busy") // tried again
		}
		fmt.Println("reminder to", o.Mail)
		return nil
	})
	return worker.New(s.Client, mux, worker.Options{
		Backoff: func(*worker.Job, error) time.Duration { return s.toPay / 10 },
	}).Run(ctx)
}
