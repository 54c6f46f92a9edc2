package conformance

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

var errHandler = errors.New("why it failed")

var reserving = []line{
	{"reserve and ack: the job stays until it is acknowledged", func(s *stage) {
		s.push("a", "t", 0)
		d := s.reserve("t", "a", 1, time.Hour)
		s.expectState("a", client.Reserved)
		s.expectEmpty("t")
		check(s, d.Ack(s.Context()))
		s.expectState("a", "")
	}},
	{"a lease that ends: the job comes again, and its first holder has lost it", func(s *stage) {
		s.serve(server.Options{})
		s.push("a", "t", 0)
		lost := s.reserve("t", "a", 1, time.Millisecond)
		d := s.reserve("t", "a", 2, time.Hour)
		if d.Token <= lost.Token {
			s.Errorf("its token is %d, and was %d before", d.Token, lost.Token)
		}
		expectError(s, lost.Ack(s.Context()), client.ErrLeaseLost)
		expectError(s, lost.Extend(s.Context(), time.Hour), client.ErrLeaseLost)
		check(s, d.Ack(s.Context()))
	}},
	{"extend: the lease ends later", func(s *stage) {
		s.push("a", "t", 0)
		d := s.reserve("t", "a", 1, time.Minute)
		before := s.expectState("a", client.Reserved).Due
		check(s, d.Extend(s.Context(), time.Hour))
		if end := s.expectState("a", client.Reserved).Due; end.Sub(before) < 50*time.Minute {
			s.Errorf("it ends at %v, and ended at %v before", end, before)
		}
		check(s, d.Ack(s.Context()))
	}},
	{"retry: the job comes again after the delay, and its error is kept", func(s *stage) {
		s.serve(server.Options{})
		s.push("a", "t", 0)
		check(s, s.reserve("t", "a", 1, time.Hour).Retry(s.Context(), 10*time.Millisecond, client.Cause(errHandler)))
		d := s.reserve("t", "a", 2, time.Hour)
		expect(s, "the error", s.expectState("a", client.Reserved).Error, nil, errHandler.Error())
		check(s, d.Ack(s.Context()))
	}},
	{"attempts that are used up make a dead letter", func(s *stage) {
		s.push("a", "t", 0, client.MaxAttempts(2))
		check(s, s.reserve("t", "a", 1, time.Hour).Retry(s.Context(), 0))
		expectError(s, s.reserve("t", "a", 2, time.Hour).Retry(s.Context(), 0, client.Cause(errHandler)), client.ErrExhausted)
		expect(s, "the error", s.expectState("a", client.Dead).Error, nil, errHandler.Error())
		s.expectEmpty("t")
	}},
	{"release and postpone: the attempt does not count", func(s *stage) {
		s.push("{x}a", "t", 0)
		s.push("{x}b", "t", 0)
		check(s, s.reserve("t", "{x}a", 1, time.Hour).Release(s.Context()))
		check(s, s.reserve("t", "{x}a", 1, time.Hour).Snooze(s.Context(), time.Hour))
		expect(s, "the attempts", s.expectState("{x}a", client.Waiting).Attempts, nil, 0)
		s.expectPop("t", "{x}b")
	}},
	{"bury and requeue: a dead letter is a job again, with all its attempts", func(s *stage) {
		s.push("a", "t", 0)
		check(s, s.reserve("t", "a", 1, time.Hour).Bury(s.Context(), "reason", client.Cause(errHandler)))
		s.expectDead("t", "a")
		check(s, s.Requeue(s.Context(), "a"))
		s.expectDead("t")
		check(s, s.reserve("t", "a", 1, time.Hour).Ack(s.Context()))
		expectError(s, s.Requeue(s.Context(), "a"), client.ErrNotFound)
	}},
	{"all dead letters of a topic are requeued, or dropped", func(s *stage) {
		s.buried("t", 30)
		n, err := s.RequeueAll(s.Context(), "t")
		expect(s, "what is requeued", n, err, 30)
		s.buried("t", 0)
		n, err = s.DropDead(s.Context(), "t", "1", "2")
		expect(s, "what is dropped", n, err, 2)
		n, err = s.DropAllDead(s.Context(), "t")
		expect(s, "what is dropped then", n, err, 28)
		s.expectDead("t")
	}},
	{"dead letters are dropped when they are too old", func(s *stage) {
		s.buried("t", 3)
		work := s.newServer(s.layout(), server.Options{DeadMaxAge: time.Millisecond})
		redistest.Until(s, "all are dropped", func() bool {
			check(s, work.Pass(s.Context()))
			return len(s.dead("t")) == 0
		})
	}},
	{"a lease is as long as the producer says", func(s *stage) {
		s.push("a", "t", 0, client.TTR(7*time.Minute))
		d := s.reserve("t", "a", 1, 0)
		expect(s, "the lease", d.Lease(), nil, 7*time.Minute)
	}},
	{"batches are reserved, extended and acknowledged, each job for itself", func(s *stage) {
		_, err := s.PushBatch(s.Context(), delayed(1, 100, "t", 0))
		check(s, err)
		deliveries, err := s.Fetch(s.Context(), client.FetchOptions{Topics: []client.FetchTopic{{Topic: "t"}}, Max: 100, Lease: time.Hour})
		check(s, err)
		for more := deliveries; len(deliveries) < 100; deliveries = append(deliveries, more...) {
			more, err = s.ReserveBatch(s.Context(), "t", 100, time.Hour)
			check(s, err)
		}
		_, err = s.Remove(s.Context(), deliveries[0].ID)
		check(s, err)
		for _, settle := range []func() ([]client.Result, error){
			func() ([]client.Result, error) { return s.ExtendBatch(s.Context(), deliveries, 2*time.Hour) },
			func() ([]client.Result, error) { return s.AckBatch(s.Context(), deliveries) },
		} {
			results, err := settle()
			expectError(s, err, client.ErrLeaseLost)
			for i, r := range results {
				if lost := errors.Is(r.Err, client.ErrLeaseLost); lost != (i == 0) || !lost && r.Err != nil {
					s.Errorf("result %d is %v", i, r.Err)
				}
			}
		}
		for _, d := range deliveries {
			s.expectState(d.ID, "")
		}
	}},
	{"a worker handles jobs, tries again, and gives up", func(s *stage) {
		s.serve(server.Options{})
		s.push("good", "t", 0)
		s.push("bad", "t", 0, client.MaxAttempts(2))
		mux, tries := worker.NewMux(), make(chan string, 10)
		mux.HandleFunc("t", func(_ context.Context, job *worker.Job) error {
			tries <- job.ID
			if job.ID == "bad" {
				return errHandler
			}
			return nil
		})
		w := worker.New(s.Client, mux, worker.Options{
			Backoff: func(int, error) time.Duration { return time.Millisecond },
			Logger:  slog.New(slog.DiscardHandler),
		})
		stop := redistest.Background(s.witness, w.Run)
		times := map[string]int{}
		for range 3 {
			times[redistest.Receive(s, tries)]++
		}
		stop()
		expect(s, "how often each was tried", times, nil, map[string]int{"good": 1, "bad": 2})
		s.expectState("good", "")
		s.expectState("bad", client.Dead)
	}},
}

// buried buries n new jobs and the topic's ready jobs.
func (s *stage) buried(topic string, n int) {
	s.Helper()
	if n > 0 {
		_, err := s.PushBatch(s.Context(), delayed(1, n, topic, 0))
		check(s, err)
	}
	for {
		deliveries, err := s.ReserveBatch(s.Context(), topic, 100, time.Hour)
		if errors.Is(err, client.ErrEmpty) {
			return
		}
		check(s, err)
		for _, d := range deliveries {
			check(s, d.Bury(s.Context(), "reason"))
		}
	}
}

func (s *stage) expectDead(topic string, want ...string) {
	s.Helper()
	expect(s, "the dead letters", s.dead(topic), nil, want)
}

// dead returns the IDs of the topic's dead letters.
func (s *stage) dead(topic string) (ids []string) {
	s.Helper()
	for letter, err := range s.Dead(s.Context(), topic) {
		check(s, err)
		ids = append(ids, letter.ID)
	}
	return ids
}
