package client_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/redistest"
)

// demote has the proxy lead to the new master, and makes the old one a replica that keeps its
// connections: of the new one, or of nobody, so that it knows nothing new.
func (f *fixture) demote(proxy *redistest.Proxy, to *fixture, follows bool) {
	f.t.Helper()
	proxy.Lead(to.redis.Addr)
	master := "127.0.0.1:1"
	if follows {
		master = to.redis.Addr
	}
	host, port, _ := net.SplitHostPort(master)
	f.do("REPLICAOF", host, port)
	if follows {
		until(f.t, "the old master is a replica in sync", func() bool {
			role, err := redis.Values(f.do("ROLE"), nil)
			return err == nil && fmt.Sprintf("%s %s", role[0], role[3]) == "slave connected"
		})
	}
}

// Who waits at a master that lives on as a replica, where all looks well, notices that: he gets jobs
// that are pushed to the new one, and hears of them there.
func TestWaitersLeaveADemotedServer(t *testing.T) {
	wait := map[string]func(c *client.Client, ctx context.Context, topic string) (string, error){
		"BPop": func(c *client.Client, ctx context.Context, topic string) (string, error) {
			m, err := c.BPop(ctx, 0, topic)
			return m.ID, err
		},
		"BPop of several": func(c *client.Client, ctx context.Context, topic string) (string, error) {
			m, err := c.BPop(ctx, 0, "other", topic)
			return m.ID, err
		},
		"Fetch": func(c *client.Client, ctx context.Context, topic string) (string, error) {
			list, err := c.Fetch(ctx, client.FetchOptions{Topics: []client.FetchTopic{{Topic: topic}}, Max: 1})
			if err != nil {
				return "", err
			}
			return list[0].ID, list[0].Ack(ctx)
		},
		"worker": func(c *client.Client, ctx context.Context, topic string) (id string, err error) {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			mux := worker.NewMux()
			mux.HandleFunc(topic, func(_ context.Context, job *worker.Job) error {
				id = job.ID
				stop()
				return nil
			})
			err = worker.New(c, mux, worker.Options{}).Run(ctx)
			return id, err
		},
		"Pop, again and again": func(c *client.Client, ctx context.Context, topic string) (string, error) {
			for {
				m, err := c.Pop(ctx, topic)
				if !errors.Is(err, client.ErrEmpty) {
					return m.ID, err
				}
				time.Sleep(time.Millisecond)
			}
		},
	}
	for state, follows := range map[string]bool{"follows": true, "cut off": false} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			oldMaster, newMaster := start(t), start(t)
			proxy := redistest.StartProxy(t, oldMaster.redis.Addr)
			c := client.OpenPool(client.PoolOptions{Addr: proxy.Addr})
			defer c.Close()
			if err := c.WarmUp(t.Context()); err != nil { // with connections that rest
				t.Fatal(err)
			}
			results := map[string]<-chan result{}
			for name, call := range wait {
				results[name] = background(func() (client.Message, error) {
					id, err := call(c, t.Context(), name)
					return client.Message{ID: id}, err
				})
				if name != "Pop, again and again" {
					until(t, name+" waits", func() bool { return oldMaster.waiters(name) == 1 })
				}
			}
			oldMaster.demote(proxy, newMaster, follows)
			for name := range wait {
				newMaster.push(name, name)
			}
			for name, r := range results {
				r := waitFor(t, r)
				if r.err != nil || r.m.ID != name {
					t.Errorf("%s: got %q, %v", name, r.m.ID, r.err)
				}
			}
			waits := background(func() (client.Message, error) { return c.BPop(t.Context(), 0, "last") })
			newMaster.waits(c, "last", 1)
			until(t, "nobody listens to the old one", func() bool { return oldMaster.waiters("BPop") == 0 })
			newMaster.push("last", "last")
			expectJob(t, waitFor(t, waits), "last")
		})
	}
}

// At a server that takes no writes for a while, and is left for no other, who waits bears that as
// he bears an outage, and ends with its error when it lasts.
func TestWaitingAtAServerThatTakesNoWrites(t *testing.T) {
	t.Parallel()
	f := start(t)
	popped := f.bpop(t.Context(), "t")
	f.do("CONFIG", "SET", "min-replicas-to-write", 1)
	f.do("CONFIG", "SET", "min-replicas-to-write", 0)
	f.push("a", "t")
	expectJob(t, waitFor(t, popped), "a")

	popped = f.bpop(t.Context(), "t")
	f.do("CONFIG", "SET", "min-replicas-to-write", 1)
	r := waitFor(t, popped)
	expectText(t, "BPop", r.err, "NOREPLICAS")
}
