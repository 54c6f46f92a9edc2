package inspect

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// hear subscribes to each of the channels.
func hear(t *testing.T, addr string, channels ...string) {
	t.Helper()
	for _, channel := range channels {
		conn, err := redis.Dial("tcp", addr)
		redistest.Check(t, err)
		t.Cleanup(func() { conn.Close() })
		waiter := redis.PubSubConn{Conn: conn}
		redistest.Check(t, waiter.Subscribe(channel))
		if heard, is := waiter.Receive().(redis.Subscription); !is {
			t.Fatal(channel, heard)
		}
	}
}

// Each live client that waits for a topic counts, however many topics there are. A user without permission gets no number.
func TestWaiters(t *testing.T) {
	t.Parallel()
	f, _ := onRedis(t)
	var topics []store.WaitedFor
	want := make([]int, 3*waitersStep/2)
	for i := range want {
		topics = append(topics, store.WaitedFor{Topic: fmt.Sprint("topic ", i, "\xff")})
	}
	for n, i := range []int{0, waitersStep, waitersStep, len(want) - 1} {
		hear(t, f.Addr, fmt.Sprint("delayer:wake:", n))
		f.Do("ZADD", "delayer:waiting:"+topics[i].Topic, 1, n, 2, "dead")
		want[i]++
	}
	if got, err := f.Inspector.Waiters(f.ctx, topics); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := f.Inspector.Waiters(f.ctx, nil); err != nil || got == nil || len(got) != 0 {
		t.Errorf("of no topics: %v, %v", got, err)
	}
	f.Do("ACL", "SETUSER", "default", "-pubsub")
	if got, err := f.Inspector.Waiters(f.ctx, topics); err != nil || got != nil {
		t.Errorf("who may not know gets %v, %v", got, err)
	}
	if got, err := f.Inspector.Listeners(f.ctx, topics); err != nil || got != nil {
		t.Errorf("who may not know gets %v, %v", got, err)
	}
}

// Each program is listed once, with everything it waits for in any partition. Programs without a name are listed together, last.
func TestListeners(t *testing.T) {
	t.Parallel()
	f := inPartitions(t)
	says := func(partition int, id, host string, pid int, name string) {
		f.Do("RPUSH", fmt.Sprintf("delayer:{%d}:client:%s", partition, id), host, pid, name)
	}
	waits := func(partition int, id string, since int, topics ...string) {
		for _, topic := range topics {
			f.Do("ZADD", fmt.Sprintf("delayer:{%d}:waiting:%s", partition, topic), since, id)
		}
		hear(t, f.Addr, fmt.Sprintf("delayer:{%d}:wake:%s", partition, id))
	}
	for partition := range 2 { // nothing is known about the others
		says(partition, "s1", "b", 7, "shop")
		says(partition, "s2", "b", 7, "shop")
		waits(partition, "s1", 3000000+partition, "mail", "order")
		waits(partition, "s2", 5000000, "mail")
	}
	says(2, "other", "a", 1, "report")
	waits(2, "other", 9000000, "order")
	waits(2, "old", 1000000, "mail")
	f.Do("ZADD", "delayer:{2}:waiting:mail", 1, "dead")
	topics := []store.WaitedFor{{Topic: "order"}, {Topic: "nobody"}, {Topic: "mail"}}
	got, err := f.Inspector.Listeners(f.ctx, topics)
	redistest.Check(t, err)
	want := Listeners{Clients: []int{1, 0, 2}, Programs: []Listener{
		{store.Program{Host: "a", Name: "report", PID: 1}, 1, time.Unix(9, 0), []string{"order"}},
		{store.Program{Host: "b", Name: "shop", PID: 7}, 2, time.Unix(3, 0), []string{"order", "mail"}},
		{store.Program{}, 1, time.Unix(1, 0), []string{"mail"}},
	}}
	if fmt.Sprint(*got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", *got, want)
	}
}
