package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/delayertest"
)

// start returns a shop on an in-memory Delayer whose clock the test controls. Its mails are sent by send.
func start(t *testing.T, send func(context.Context, order) error) (*delayertest.Delayer, *shop) {
	t.Parallel()
	d := delayertest.New(t)
	return d, &shop{jobs: d.Client(), toPay: 30 * time.Minute, send: send, states: map[int]string{}}
}

// post sends a request and checks the status of the answer.
func post(t *testing.T, s *shop, path string, want int) {
	t.Helper()
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, httptest.NewRequest("POST", path, nil))
	if w.Code != want {
		t.Fatalf("POST %s answers %d, want %d: %s", path, w.Code, want, w.Body)
	}
}

func TestAnUnpaidOrderIsClosed(t *testing.T) {
	mails := make(chan order, 2)
	d, s := start(t, func(_ context.Context, o order) error { mails <- o; return nil })
	post(t, s, "/orders", http.StatusCreated)
	if job := d.Due(t, "close_order", 30*time.Minute); job.ID != "close_order-1" {
		t.Errorf("the job's ID is %q", job.ID)
	}
	d.Forward(t, 30*time.Minute)
	for _, topic := range []string{"close_order", "mail"} {
		if err := d.Handle(t, s.worker(), topic); err != nil {
			t.Fatal(err)
		}
	}
	if o := <-mails; o.Number != 1 || s.states[1] != "closed" {
		t.Errorf("mail of order %d, the orders are %v", o.Number, s.states)
	}
	post(t, s, "/orders/1/paid", http.StatusConflict)
}

func TestAPaidOrderIsNotClosed(t *testing.T) {
	d, s := start(t, logMail)
	post(t, s, "/orders", http.StatusCreated)
	post(t, s, "/orders/1/paid", http.StatusOK)
	if left := d.Jobs(t, "close_order"); len(left) > 0 {
		t.Errorf("%+v", left)
	}
	post(t, s, "/orders/2/paid", http.StatusConflict)
}

// The worker has the job already when the customer pays: the database decides, and the handler finds nothing to do.
func TestAnOrderIsPaidWhileItsJobIsReserved(t *testing.T) {
	d, s := start(t, logMail)
	post(t, s, "/orders", http.StatusCreated)
	d.Forward(t, 30*time.Minute)
	job, err := d.Client().Reserve(t.Context(), time.Minute, "close_order")
	if err != nil {
		t.Fatal(err)
	}
	post(t, s, "/orders/1/paid", http.StatusOK)
	if err := errors.Join(s.close(t.Context(), order{1}), job.Ack(t.Context())); err != nil {
		t.Error(err)
	}
	if s.states[1] != "paid" || len(d.Jobs(t, "mail")) > 0 {
		t.Errorf("the order is %s, mails: %v", s.states[1], d.Jobs(t, "mail"))
	}
}

// Delayer is away when the handler has closed the order and pushes the mail: the next attempt pushes it.
func TestAnAttemptContinuesWhereTheLastOneFailed(t *testing.T) {
	d, s := start(t, logMail)
	post(t, s, "/orders", http.StatusCreated)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.close(gone, order{1}); err == nil || s.states[1] != "closed" {
		t.Fatalf("%v, the order is %s", err, s.states[1])
	}
	d.Forward(t, 30*time.Minute)
	if err := d.Handle(t, s.worker(), "close_order"); err != nil {
		t.Fatal(err)
	}
	d.Due(t, "mail", 0)
}

func TestAMailThatFailsIsRetriedAndBecomesADeadLetter(t *testing.T) {
	busy := errors.New("the mail server is busy")
	d, s := start(t, func(context.Context, order) error { return busy })
	if _, err := mail.Push(t.Context(), d.Client(), order{1}, 0); err != nil {
		t.Fatal(err)
	}
	for attempt := 1; attempt <= 5; attempt++ {
		if err := d.Handle(t, s.worker(), "mail"); !errors.Is(err, busy) {
			t.Fatalf("attempt %d: %v", attempt, err)
		}
		want := client.StateWaiting
		if attempt == 5 {
			want = client.StateDead
		}
		if job := d.Jobs(t, "mail")[0]; job.State != want || job.Attempts != attempt || job.Error != busy.Error() {
			t.Errorf("attempt %d: %+v", attempt, job)
		}
		d.Forward(t, time.Hour) // longer than any delay of a retry
	}
}

func TestConfigure(t *testing.T) {
	d, s := start(t, logMail)
	for range 2 { // a second process changes nothing
		if err := configure(t.Context(), d.Client()); err != nil {
			t.Fatal(err)
		}
	}
	schedules, err := d.Client().Schedules().List(t.Context())
	if err != nil || len(schedules) != 1 {
		t.Fatalf("%v, %+v", err, schedules)
	}
	d.Forward(t, schedules[0].Next.Sub(d.Now()))
	if err := d.Handle(t, s.worker(), "report"); err != nil {
		t.Error(err)
	}
	stats, err := d.Client().Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, topic := range stats.Topics {
		if topic.Topic == "mail" && topic.Limit == (client.Limit{Rate: 10}) {
			return
		}
	}
	t.Errorf("the mails have no limit: %+v", stats.Topics)
}

// The service is told to stop while a mail is being sent: the mail is finished, and the request that comes meanwhile is answered.
func TestAStopFinishesWhatHasBegun(t *testing.T) {
	begun, finish := make(chan bool), make(chan bool)
	d, s := start(t, func(ctx context.Context, _ order) error {
		close(begun)
		select {
		case <-finish:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mail.Push(t.Context(), d.Client(), order{1}, 0); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.run(ctx, l) }()
	<-begun
	stop()
	answer, err := http.Post("http://"+l.Addr().String()+"/orders", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusCreated {
		t.Errorf("a request during the stop is answered with %s", answer.Status)
	}
	close(finish)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if left := d.Jobs(t, "mail"); len(left) > 0 {
		t.Errorf("the mail is not done: %+v", left)
	}
}
