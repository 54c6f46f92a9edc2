package client_test

import (
	"context"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A Client finds each new master through the sentinels, no matter what happened to the old one.
func TestSentinel(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	for name, fail := range map[string]func(s *redistest.Sentinels){
		"killed":      func(s *redistest.Sentinels) { s.Servers[0].Kill() },
		"hung":        func(s *redistest.Sentinels) { s.Servers[0].Hang() },
		"failed over": func(s *redistest.Sentinels) { s.Sentinels[1].Do("SENTINEL", "FAILOVER", "m") },
		"killed, and a sentinel": func(s *redistest.Sentinels) {
			s.Sentinels[0].Hang()
			s.Servers[0].Kill()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.StartSentinels(t)
			c := redistest.Must(client.OpenPool(client.PoolOptions{Sentinels: s.Addrs(), SentinelMaster: "m"}))
			defer c.Close()
			waiting := background(func() (m client.Message, err error) { // called again if a failover takes longer than BPop's retry window
				for again := true; again; again = err != nil && t.Context().Err() == nil {
					m, err = c.BPop(t.Context(), 0, "waited")
				}
				return m, err
			})
			push := func(id, topic string) error {
				ctx, cancel := context.WithTimeout(t.Context(), hangBound)
				defer cancel()
				_, err := c.Push(ctx, client.Message{ID: id, Topic: topic, Body: "b"}, 0)
				return err
			}
			check(t, push("before", "t"))
			old := s.Servers[0]
			fail(s)
			var promoted *redistest.Server
			redistest.Until(t, "another master is named", func() bool {
				promoted = s.Master(s.Sentinels[2])
				return promoted != old
			})
			began, n := time.Now(), 0
			redistest.Until(t, "a push is confirmed", func() bool { n++; return push("after", "t") == nil })
			t.Logf("pushed %v after the promotion, at the attempt %d", time.Since(began), n)
			// The old master loses the writes that it accepts before it learns of the new one, so one push may not
			// suffice.
			redistest.Until(t, "the job has come", func() bool { return push("waited", "waited") == nil && len(waiting) > 0 })
			expectJob(t, waiting, "waited")
		})
	}
}

// Sentinels and master use TLS and names instead of addresses, also for the subscription of a waiting caller.
func TestSentinelTLS(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	master, addr, roots := redistest.StartTLSSentinel(t)
	o, err := client.ParseURL("rediss-sentinel://" + addr + "?master=m")
	check(t, err)
	distrustful := redistest.Must(client.OpenPool(o))
	defer distrustful.Close()
	expectText(t, "Ping", distrustful.Ping(t.Context()), "sentinel "+addr, "certificate signed by unknown authority")
	o.TLS.RootCAs = roots
	c := redistest.Must(client.OpenPool(o))
	defer c.Close()
	waiting := bpop(t.Context(), c, 0, "t")
	master.AwaitWaiter("t")
	check(t, errOf(c.Push(t.Context(), message("a"), 0)))
	expectJob(t, waiting, "a")
}
