package store

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Resume wakes the clients that wait for the topic: those registered before or during the pause, and those in BRPOP.
func TestResumeWakes(t *testing.T) {
	b, server := onRedis(t, alone)
	ctx := t.Context()
	pool := server.Pool()
	defer pool.Close()
	subscriber := redis.PubSubConn{Conn: pool.Get()}
	defer subscriber.Close()
	check(t, subscriber.Subscribe("delayer:wake:first", "delayer:wake:second"))
	for range 2 {
		subscriber.Receive()
	}
	look := func(waiter string) Checked {
		t.Helper()
		found, err := CheckAll(ctx, Check{b.Store, []string{"t"}, waiter, []time.Duration{0}})
		check(t, err)
		return found[0]
	}
	look("first")
	b.pause(t, "t")
	if found := look("second"); !found.Registered || !found.Added[0] {
		t.Errorf("who comes is told %+v", found)
	}
	b.add(t, ready("a", "t"))
	if kept := made(t, b.KeepPaused("0")); kept.Paused != 1 { // as an original server makes jobs ready
		t.Errorf("%+v", kept)
	}
	check(t, b.push(ctx, Job{ID: "b", Topic: "t", Body: "b"}, Due{}, time.Hour, Replace))
	if n, err := b.Store.Waiters(ctx, waitedFor("t")); err != nil || len(n[0]) != 2 {
		t.Errorf("%v wait, %v", n, err)
	}
	popped := make(chan string, 1)
	go func() {
		conn := pool.Get()
		defer conn.Close()
		reply, _ := redis.Strings(redis.DoWithTimeout(conn, time.Minute, "BRPOP", "delayer:ready_queue:t", 30))
		popped <- strings.Join(reply, " ")
	}()
	redistest.Until(t, "it waits", func() bool {
		info, err := redis.String(b.do(t, "INFO", "clients"), nil)
		check(t, err)
		return strings.Contains(info, "blocked_clients:1")
	})
	b.Unregister(ctx, "nobody", []string{"t"}, false)
	b.resume(t, "t", true)
	if got := <-popped; got != "delayer:ready_queue:t a" {
		t.Errorf("the old client has popped %q", got)
	}
	message, _ := subscriber.Receive().(redis.Message)
	if message.Channel != "delayer:wake:first" || string(message.Data) != "2 t" {
		t.Errorf("woken: %s %s", message.Channel, message.Data)
	}
	if waits := b.With(t).Strings("ZRANGE", "delayer:waiters:t", 0, -1); !slices.Equal(waits, []string{"second"}) {
		t.Errorf("%q wait still", waits)
	}
	b.pause(t, "t")
	b.Unregister(ctx, "second", []string{"t"}, false)
	if waits := b.With(t).Strings("ZRANGE", "delayer:paused_waiters:t", 0, -1); len(waits) > 0 {
		t.Errorf("%q wait still", waits)
	}
}

// A client that comes after a pause without waiters is registered and woken: the pause leaves nothing behind.
func TestResumeLeavesRoomForWaiters(t *testing.T) {
	for name, end := range endsOfPauses {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, b *backend) {
				b.seed(t)
				b.pause(t, "t")
				end(t, b)
				got := made(t, b.Reserve(Wanted{Topics: []string{"t"}, N: 1, Registration: Registration{Waiter: "me"}}, Reservation{}))
				if waits := b.With(t).Strings("ZRANGE", "delayer:waiters:t", 0, -1); !got.Registered || !slices.Equal(waits, []string{"me"}) {
					t.Errorf("entered %v; %q wait", got.Registered, waits)
				}
				b.resume(t, "t", false)
				if waits := b.With(t).Strings("ZRANGE", "delayer:waiters:t", 0, -1); !slices.Equal(waits, []string{"me"}) {
					t.Errorf("a topic that is not paused is resumed: %q wait", waits)
				}
				check(t, b.push(t.Context(), Job{ID: "a", Topic: "t", Body: "b"}, Due{}, time.Hour, Replace))
				if n := b.do(t, "EXISTS", "delayer:waiters:t"); n != int64(0) {
					t.Error("the waiter was not woken")
				}
			})
		})
	}
}
