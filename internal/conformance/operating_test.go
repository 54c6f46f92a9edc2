package conformance

import (
	"errors"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

var operating = []line{
	{"a server finds all that it needs (check_redis)", func(s *stage) {
		check(s, s.newServer(s.layout(), server.Options{}).Check(s.Context()))
	}},
	{"stats count waiting, ready, reserved and dead jobs", func(s *stage) {
		s.oneOfEach()
		stats, err := s.Stats(s.Context())
		check(s, err)
		expect(s, "waiting jobs", stats.Waiting, nil, 1)
		expect(s, "topics", stats.Topics, nil, []client.TopicStats{{Topic: "t", Ready: 1, Reserved: 1, Dead: 1}})
	}},
	{"browse: pages of jobs in each state", func(s *stage) {
		s.oneOfEach()
		for _, state := range []string{inspect.Waiting, inspect.Ready, inspect.Reserved, inspect.Dead} {
			page, err := s.inspector().Browse(s.Context(), inspect.Query{Topic: "t", State: state})
			check(s, err)
			if len(page.Jobs) != 1 || page.Jobs[0].ID != state {
				s.Errorf("%s: %+v", state, page)
			}
		}
	}},
	{"browse: each page goes on where the one before ended", func(s *stage) {
		jobs := delayed(1, 25, "t", time.Hour)
		_, err := s.PushBatch(s.Context(), jobs)
		check(s, err)
		c := newCensus(jobs)
		for q := (inspect.Query{Topic: "t", State: inspect.Waiting, Limit: 10}); ; {
			page, err := s.inspector().Browse(s.Context(), q)
			check(s, err)
			for _, job := range page.Jobs {
				c.count(job.ID)
			}
			if q.Cursor = page.Cursor; q.Cursor == "" {
				break
			}
		}
		c.expectOnce(s)
	}},
	{"purge deletes a topic's ready jobs, and no others", func(s *stage) {
		s.oneOfEach()
		n, err := s.inspector().Purge(s.Context(), "t", 100)
		expect(s, "the deleted jobs", n, err, 1)
		s.expectState("ready", "")
		s.expectState("waiting", client.Waiting)
		s.expectState("reserved", client.Reserved)
		s.expectState("dead", client.Dead)
	}},
	{"forecast: how many jobs fall due when", func(s *stage) {
		_, err := s.PushBatch(s.Context(), delayed(1, 5, "t", time.Hour))
		check(s, err)
		spans, err := s.inspector().Forecast(s.Context(), []time.Duration{time.Minute, 2 * time.Hour})
		check(s, err)
		expect(s, "what falls due", []int{spans[0].Jobs, spans[1].Jobs}, nil, []int{0, 5})
	}},
	{"servers say that they run, and sign off", func(s *stage) {
		await := func(want int) {
			s.Helper()
			redistest.Until(s, fmt.Sprint(want, " servers run"), func() bool {
				servers, err := s.inspector().Servers(s.Context())
				check(s, err)
				return len(servers) == want
			})
		}
		stop := redistest.Background(s.witness, s.newServer(s.layout(), server.Options{}).Run)
		await(1)
		stop()
		await(0)
	}},
	{"another number of partitions is refused", func(s *stage) {
		n := max(s.redis.Partitions, 2)
		push := func(l fleet.Layout) error {
			_, err := s.divided(l).Push(s.Context(), client.Message{ID: "a", Topic: "t", Body: "b"}, 0)
			return err
		}
		check(s, push(fleet.Layout{Partitions: n}))
		if err := push(fleet.Layout{Partitions: n + 1}); !errors.As(err, new(*fleet.LayoutError)) {
			s.Errorf("got %v", err)
		}
	}},
	{"more partitions than before: what lies in the old ones is found, moved and delivered", func(s *stage) {
		before := max(s.redis.Partitions, 1)
		old, grown := s.divided(fleet.Layout{Partitions: before}), fleet.Layout{Partitions: 2*before + 1, Previous: before}
		jobs := delayed(1, 50, "t", 10*time.Millisecond)
		_, err := old.PushBatch(s.Context(), jobs)
		check(s, err)
		_, err = old.PushBatch(s.Context(), delayed(51, 60, "t", time.Hour))
		check(s, err)
		s.Client = s.divided(grown)
		for n := 51; n <= 60; n++ {
			removed, err := s.Remove(s.Context(), fmt.Sprint(n))
			expect(s, "whether it was there", removed, err, true)
		}
		redistest.Background(s.witness, s.newServer(grown, server.Options{}).Run)
		newCensus(jobs).run(s, popper(s.Client, "t"))
	}},
	{"cluster: the partitions are on several nodes, and a topic is served from all", func(s *stage) {
		if s.redis.Cluster == "" {
			s.Skip("no cluster")
		}
		jobs := delayed(1, 200, "t", 0)
		_, err := s.PushBatch(s.Context(), jobs)
		check(s, err)
		partitions, err := s.inspector().Partitions(s.Context())
		check(s, err)
		nodes := map[string]bool{}
		for _, p := range partitions {
			nodes[p.Node] = true
		}
		if len(nodes) < 2 {
			s.Skip("all partitions are on one node")
		}
		c := newCensus(jobs)
		c.run(s, popper(s.Client, "t"))
	}},
	{"cluster: messages go to the nodes of a slot only (SPUBLISH)", func(s *stage) {
		if s.redis.Cluster == "" {
			s.Skip("no cluster")
		}
		_, err := s.store.Get(s.Context(), "a") // finds the nodes
		expectError(s, err, store.ErrNotFound)
		if !s.store.Sharded() {
			s.Skip("PUBLISH, to all nodes, works as well")
		}
	}},
}

// oneOfEach stores one job in each state, with the state as its ID.
func (s *stage) oneOfEach() {
	s.Helper()
	s.push("dead", "t", 0)
	check(s, s.reserve("t", "dead", 1, time.Hour).Bury(s.Context(), "reason"))
	s.push("reserved", "t", 0)
	s.reserve("t", "reserved", 1, time.Hour)
	s.push("waiting", "t", time.Hour)
	s.push("ready", "t", 0)
}
