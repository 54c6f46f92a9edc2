package client_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// demote makes the proxy lead to the new master. The old master becomes a replica that keeps its connections. If
// follows is set, it follows the new master; otherwise its master is unreachable and it gets no new data.
func (f *fixture) demote(proxy *redistest.Proxy, to *fixture, follows bool) {
	f.TB.Helper()
	proxy.Lead(to.Addr)
	master := "127.0.0.1:1"
	if follows {
		master = to.Addr
	}
	host, port, _ := net.SplitHostPort(master)
	f.Do("REPLICAOF", host, port)
	if follows {
		until(f.TB, "the old master is a replica in sync", func() bool {
			role, err := redis.Values(f.Do("ROLE"), nil)
			return err == nil && fmt.Sprintf("%s %s", role[0], role[3]) == "slave connected"
		})
	}
}

// Callers that wait at a master notice that it became a replica, although nothing fails there. They get jobs that are
// pushed to the new master, and are woken there.
func TestWaitersLeaveADemotedServer(t *testing.T) {
	calls := maps.Clone(waiters)
	calls["BPop of several"] = func(ctx context.Context, c *client.Client, _ time.Duration, topics ...string) (client.Message, error) {
		return c.BPop(ctx, 0, "other", topics...)
	}
	calls["worker"] = func(ctx context.Context, c *client.Client, _ time.Duration, topics ...string) (m client.Message, err error) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		mux := worker.NewMux()
		mux.HandleFunc(topics[0], func(_ context.Context, job *worker.Job) error {
			m = job.Message
			stop()
			return nil
		})
		err = worker.New(c, mux, worker.Options{}).Run(ctx)
		return m, err
	}
	const pops = "Pop, again and again"
	calls[pops] = func(ctx context.Context, c *client.Client, _ time.Duration, topics ...string) (client.Message, error) {
		for {
			m, err := c.Pop(ctx, topics[0])
			if !errors.Is(err, client.ErrEmpty) {
				return m, err
			}
			time.Sleep(time.Millisecond)
		}
	}
	for state, follows := range map[string]bool{"follows": true, "cut off": false} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			oldMaster, newMaster := start(t, replaced, promptReplicas), start(t, replaced, promptReplicas)
			proxy := redistest.StartProxy(t, oldMaster.Addr)
			c := oldMaster.openPool(client.PoolOptions{Addr: proxy.Addr})
			check(t, c.WarmUp(t.Context())) // with connections that were idle
			results := map[string]<-chan result{}
			for name, call := range calls {
				results[name] = inBackground(t.Context(), call, c, 0, name)
				if name != pops {
					oldMaster.AwaitWaiter(name)
				}
			}
			oldMaster.demote(proxy, newMaster, follows)
			for name := range calls { // by pooled connections to the old master, which refuses writes
				check(t, errOf(c.Push(t.Context(), client.Message{ID: name, Topic: name, Body: "b"}, 0)))
			}
			for name, r := range results {
				expectJob(t, r, name)
			}
			waits := newMaster.waiter(t.Context(), c, "last")
			until(t, "nobody listens to the old one", func() bool { return oldMaster.Waiters("BPop") == 0 })
			newMaster.push("last", "last")
			expectJob(t, waits, "last")
		})
	}
}
