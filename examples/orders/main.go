// Command orders is a service that closes orders which are not paid in time, and mails the customer.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
)

// order is the body of the jobs.
type order struct {
	Number int `json:"number"`
}

const (
	closeOrder client.Topic[order]    = "close_order"
	mail       client.Topic[order]    = "mail"
	report     client.Topic[struct{}] = "report"
)

// jobID derives the ID of the order's job from the topic, because an ID belongs to one topic.
func jobID(topic client.Topic[order], o order) string { return fmt.Sprintf("%s-%d", topic, o.Number) }

type shop struct {
	jobs  *client.Client
	toPay time.Duration
	send  func(context.Context, order) error // mails that the order is closed

	mu     sync.Mutex // what follows is in your database
	last   int
	states map[int]string
}

// settle is UPDATE orders SET state = ? WHERE number = ? AND state = 'unpaid'. It reports whether the order has that state now, also from
// an earlier call: a handler that has failed is called again.
func (s *shop) settle(o order, state string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.states[o.Number]; now != "unpaid" && now != state {
		return false
	}
	s.states[o.Number] = state
	return true
}

// place pushes the job first: a job without an order does nothing, but an order without a job would never be closed.
func (s *shop) place(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.last++
	o := order{s.last}
	s.mu.Unlock()
	if _, err := closeOrder.Push(r.Context(), s.jobs, o, s.toPay, client.ID(jobID(closeOrder, o))); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	s.mu.Lock()
	s.states[o.Number] = "unpaid"
	s.mu.Unlock()
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintln(w, o.Number)
}

// pay updates the order first: the database decides whether the payment or the handler was earlier. A handler that runs now finds
// the order paid, so it may finish, and so does the handler of a job that could not be removed.
func (s *shop) pay(w http.ResponseWriter, r *http.Request) {
	number, _ := strconv.Atoi(r.PathValue("number"))
	o := order{number}
	if !s.settle(o, "paid") {
		http.Error(w, "there is no such order, or it is closed", http.StatusConflict)
		return
	}
	if _, err := s.jobs.RemoveUnlessReserved(r.Context(), jobID(closeOrder, o)); err != nil {
		log.Printf("order %d is paid, its job stays: %v", number, err)
	}
}

func (s *shop) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", s.place)
	mux.HandleFunc("POST /orders/{number}/paid", s.pay)
	return mux
}

// close handles the job of an order that may not be paid.
func (s *shop) close(ctx context.Context, o order) error {
	if !s.settle(o, "closed") {
		return nil
	}
	_, err := mail.Push(ctx, s.jobs, o, 0, client.ID(jobID(mail, o)))
	return err // after an error the job is tried again later
}

// summarize handles a job of the nightly schedule.
func (s *shop) summarize(context.Context, struct{}) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	log.Printf("report: %d orders", len(s.states))
	return nil
}

func (s *shop) worker() *worker.Worker {
	mux := worker.NewMux()
	worker.Handle(mux, closeOrder, s.close)
	worker.Handle(mux, report, s.summarize)
	worker.Handle(mux, mail, s.send, worker.TopicOptions{MaxAttempts: 5, Timeout: time.Minute})
	return worker.New(s.jobs, mux, worker.Options{}) // logs each failure and each dead letter
}

// configure is called whenever a process starts.
func configure(ctx context.Context, c *client.Client) error {
	_, err := c.Schedules().SetAll(ctx, "orders", []client.Schedule{
		{Name: "nightly-report", Cron: "0 3 * * *", Zone: "Europe/Berlin", Topic: string(report), Body: "{}"},
	})
	return errors.Join(err, c.SetLimit(ctx, string(mail), client.Limit{Rate: 10})) // mails a second, of all processes
}

// run serves until ctx is done, and finishes the jobs and the requests that have begun.
func (s *shop) run(ctx context.Context, l net.Listener) error {
	if err := configure(ctx, s.jobs); err != nil {
		return err
	}
	server := &http.Server{Handler: s.handler()}
	go server.Serve(l) // until Shutdown
	err := s.worker().Run(ctx)
	ending, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(ending))
}

func main() {
	redis := flag.String("redis", "redis://127.0.0.1:6379", "the Redis of the daemon")
	listen := flag.String("listen", "127.0.0.1:8080", "the address of the service")
	toPay := flag.Duration("to-pay", 30*time.Minute, "time to pay an order")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := client.Open(*redis)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on %s", l.Addr())
	s := &shop{jobs: c, toPay: *toPay, send: logMail, states: map[int]string{}}
	if err := s.run(ctx, l); err != nil {
		log.Fatal(err)
	}
}

func logMail(_ context.Context, o order) error {
	log.Printf("mail: order %d is closed", o.Number)
	return nil
}
