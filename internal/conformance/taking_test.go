package conformance

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

var taking = []line{
	{"a topic's jobs come in due order", func(s *stage) { // within one partition
		jobs := delayed(1, 3, "t", 0)
		for i, n := range []int{3, 1, 2} {
			jobs[i].ID, jobs[i].Delay = fmt.Sprintf("{x}%d", n), time.Duration(n)*10*time.Millisecond
		}
		_, err := s.PushBatch(s.Context(), jobs)
		check(s, err)
		s.serve(server.Options{})
		for n := 1; n <= 3; n++ {
			s.expectBPop("t", fmt.Sprintf("{x}%d", n))
		}
	}},
	{"jobs that are ready come in the order of their pushes", func(s *stage) {
		for n := 1; n <= 3; n++ {
			s.push(fmt.Sprintf("{x}%d", n), "t", 0)
		}
		for n := 1; n <= 3; n++ {
			s.expectPop("t", fmt.Sprintf("{x}%d", n))
		}
	}},
	{"of several topics the first one that has a job is served", func(s *stage) {
		s.push("b", "second", 0)
		s.push("a", "first", 0)
		for _, id := range []string{"a", "b"} {
			m, err := s.BPop(s.Context(), patience, "first", "second")
			expect(s, "the job", m.ID, err, id)
		}
	}},
	{"wake channels: who has waited longest hears of a job, alone", func(s *stage) {
		awaitMessage := s.subscribe(s.store.Keys().Wake("first"), s.store.Keys().Wake("second"))
		s.expectLook("first", 0, true)
		s.expectLook("second", 0, true)
		for _, waiter := range []string{"first", "second"} {
			s.stored("job of "+waiter, 0)
			message := awaitMessage()
			expect(s, "the channel", message.Channel, nil, s.store.Keys().Wake(waiter))
			if !strings.HasSuffix(string(message.Data), " "+topic) {
				s.Errorf("the message is %q", message.Data)
			}
		}
	}},
	{"servers hear of a job that is to be the next", func(s *stage) {
		awaitMessage := s.subscribe(s.store.Keys().FirstDue())
		s.stored("a", time.Second)
		expect(s, "the channel", awaitMessage().Channel, nil, s.store.Keys().FirstDue())
	}},
	{"a waiting BPop is seen, is woken, and gets the job", func(s *stage) {
		for n := range 5 {
			got := s.waiting("t")
			redistest.Until(s, "somebody waits", func() bool {
				waiters, err := s.inspector().Waiters(s.Context(), []store.WaitedFor{{Topic: "t"}})
				check(s, err)
				return waiters[0] > 0
			})
			id := fmt.Sprint(n)
			s.push(id, "t", 0)
			expect(s, "the job", redistest.Receive(s, got), nil, id)
		}
	}},
	{"each of many that wait gets a job", func(s *stage) {
		const many = 20
		c := newCensus(delayed(1, many, "t", 0))
		var all []<-chan string
		for range many {
			all = append(all, s.waiting("t"))
		}
		for n := 1; n <= many; n++ {
			s.push(fmt.Sprint(n), "t", 0)
		}
		for _, got := range all {
			c.count(redistest.Receive(s, got))
		}
		c.expectOnce(s)
	}},
	{"a wait ends with its timeout or context, and takes nothing", func(s *stage) {
		_, err := s.BPop(s.Context(), 500*time.Millisecond, "t")
		expectError(s, err, client.ErrEmpty)
		ctx, cancel := context.WithCancel(s.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := s.BPop(ctx, 0, "t")
			ended <- err
		}()
		cancel()
		expectError(s, redistest.Receive(s, ended), context.Canceled)
		s.push("a", "t", 0)
		s.expectPop("t", "a")
	}},
	{"one job, one taker: concurrent Pop, BPop and Reserve of two Clients", func(s *stage) {
		jobs := delayed(1, 400, "t", 0)
		c := newCensus(jobs)
		other := s.another()
		c.run(s, popper(s.Client, "t"), reserver(s.Client, "t"), popper(other, "t"), reserver(other, "t"), reserver(other, "t"),
			func(ctx context.Context, _ func(string)) error {
				_, err := s.PushBatch(ctx, jobs)
				return err
			})
		s.expectEmpty("t")
	}},
	{"several servers: no job is ready twice", func(s *stage) {
		for range 3 {
			s.serve(server.Options{})
		}
		jobs := delayed(1, 300, "t", 0)
		for i := range jobs {
			jobs[i].Delay = time.Duration(10+i/10) * time.Millisecond
		}
		c := newCensus(jobs)
		_, err := s.PushBatch(s.Context(), jobs)
		check(s, err)
		c.run(s, popper(s.Client, "t"))
		s.expectEmpty("t")
	}},
}

// waiting starts a BPop and reports the ID it gets, or its error.
func (s *stage) waiting(topic string) <-chan string {
	got := make(chan string, 1)
	go func() {
		m, err := s.BPop(s.Context(), patience, topic)
		if err != nil {
			m.ID = err.Error()
		}
		got <- m.ID
	}()
	return got
}

// reserver reserves and acknowledges jobs of the topic.
func reserver(c *client.Client, topic string) taker {
	return func(ctx context.Context, taken func(id string)) error {
		for {
			d, err := c.Reserve(ctx, 0, time.Hour, topic)
			if err != nil {
				return unlessDone(ctx, err)
			}
			if err := d.Ack(context.WithoutCancel(ctx)); err != nil {
				return err
			}
			taken(d.ID)
		}
	}
}
