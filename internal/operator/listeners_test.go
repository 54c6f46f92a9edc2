package operator

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Each connection that listens for a topic counts, whatever the number of topics; and who may not know
// gets no number.
func TestListeners(t *testing.T) {
	t.Parallel()
	f, _ := onRedis(t)
	var topics []string
	want := make([]int, 3*listenersStep/2)
	for i := range want {
		topics = append(topics, fmt.Sprint("topic ", i, "\xff"))
	}
	for n, i := range []int{0, listenersStep, listenersStep, len(want) - 1} {
		conn, err := redis.Dial("tcp", f.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		listener := redis.PubSubConn{Conn: conn}
		if err := listener.Subscribe("delayer:ready:" + topics[i]); err != nil {
			t.Fatal(err)
		}
		if heard := listener.Receive(); heard == nil {
			t.Fatal(n, heard)
		}
		want[i]++
	}
	if got, err := f.Listeners(f.ctx, topics); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := f.Listeners(f.ctx, nil); err != nil || got == nil || len(got) != 0 {
		t.Errorf("of no topics: %v, %v", got, err)
	}
	f.Do("ACL", "SETUSER", "default", "-pubsub")
	if got, err := f.Listeners(f.ctx, topics); err != nil || got != nil {
		t.Errorf("who may not know gets %v, %v", got, err)
	}
}
