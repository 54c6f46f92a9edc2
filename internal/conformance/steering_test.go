package conformance

import (
	"fmt"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/server"
)

// steering lists the promises about pauses, limits and schedules.
var steering = []line{
	{"pause: nothing of the topic is delivered, until it is resumed or the time is over", func(s *stage) {
		s.push("{x}a", "t", 0)
		check(s, s.Pause(s.Context(), "t", client.PauseOptions{Note: "why"}))
		s.push("{x}b", "t", 0)
		_, err := s.Pop(s.Context(), "t")
		expectError(s, err, client.ErrEmpty)
		s.expectState("{x}a", client.Ready)
		paused, err := s.Paused(s.Context())
		check(s, err)
		if len(paused) != 1 || paused[0].Note != "why" {
			s.Errorf("what is paused: %+v", paused)
		}
		was, err := s.Resume(s.Context(), "t")
		expect(s, "whether it was paused", was, err, true)
		s.expectPop("t", "{x}a")
		s.serve(server.Options{})
		check(s, s.Pause(s.Context(), "t", client.PauseOptions{For: time.Millisecond}))
		m, err := s.BPop(s.Context(), patience, "t")
		expect(s, "the job behind the pause", m.ID, err, "{x}b")
	}},
	{"a limit of how many are reserved: who waits for a slot gets it when it is free", func(s *stage) {
		check(s, s.SetLimit(s.Context(), "t", client.Limit{Concurrency: 1, Tag: "x"}))
		s.push("{x}a", "t", 0)
		s.push("{x}b", "t", 0)
		first := s.reserve("t", "{x}a", 1, time.Hour)
		_, err := s.ReserveBatch(s.Context(), "t", 10, time.Hour)
		expectError(s, err, client.ErrEmpty)
		waits := make(chan error)
		go func() {
			d, err := s.Reserve(s.Context(), patience, time.Hour, "t")
			if err == nil && d.ID != "{x}b" {
				err = fmt.Errorf("got %s, want {x}b", d.ID)
			}
			waits <- err
		}()
		check(s, first.Ack(s.Context()))
		check(s, <-waits)
	}},
	{"a limit of how many a second: no more begin", func(s *stage) {
		check(s, s.SetLimit(s.Context(), "t", client.Limit{Rate: 0.01, Burst: 2, Tag: "x"}))
		for i := range 5 {
			s.push(fmt.Sprint("{x}", i), "t", 0)
		}
		got, err := s.ReserveBatch(s.Context(), "t", 5, time.Hour)
		expect(s, "how many begin", len(got), err, 2)
		check(s, s.SetLimit(s.Context(), "t", client.Limit{}))
		got, err = s.ReserveBatch(s.Context(), "t", 5, time.Hour)
		expect(s, "how many begin without it", len(got), err, 3)
	}},
	{"a schedule: each moment has one job, of several servers, too", func(s *stage) {
		s.serve(server.Options{})
		s.serve(server.Options{})
		_, err := s.Schedule(s.Context(), client.Schedule{Name: "s", Every: 50 * time.Millisecond, Topic: "t", Body: "b"})
		check(s, err)
		seen := map[string]bool{}
		for range 5 {
			m, err := s.BPop(s.Context(), patience, "t")
			check(s, err)
			if seen[m.ID] {
				s.Errorf("%s came twice", m.ID)
			}
			seen[m.ID] = true
		}
		was, err := s.Unschedule(s.Context(), "s")
		expect(s, "whether there was one", was, err, true)
		left, err := s.Schedules(s.Context())
		expect(s, "what is left", len(left), err, 0)
	}},
}
