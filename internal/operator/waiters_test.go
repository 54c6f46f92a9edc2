package operator

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redistest"
)

// Each client that waits for a topic counts, unless it has died, whatever the number of topics; and who may not
// know gets no number.
func TestWaiters(t *testing.T) {
	t.Parallel()
	f, _ := onRedis(t)
	var topics []string
	want := make([]int, 3*waitersStep/2)
	for i := range want {
		topics = append(topics, fmt.Sprint("topic ", i, "\xff"))
	}
	for n, i := range []int{0, waitersStep, waitersStep, len(want) - 1} {
		conn, err := redis.Dial("tcp", f.Addr)
		redistest.Check(t, err)
		defer conn.Close()
		waiter := redis.PubSubConn{Conn: conn}
		redistest.Check(t, waiter.Subscribe(fmt.Sprint("delayer:wake:", n)))
		if heard := waiter.Receive(); heard == nil {
			t.Fatal(n, heard)
		}
		f.Do("ZADD", "delayer:waiting:"+topics[i], 1, n, 2, "dead")
		want[i]++
	}
	if got, err := f.Operator.Waiters(f.ctx, topics); err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := f.Operator.Waiters(f.ctx, nil); err != nil || got == nil || len(got) != 0 {
		t.Errorf("of no topics: %v, %v", got, err)
	}
	f.Do("ACL", "SETUSER", "default", "-pubsub")
	if got, err := f.Operator.Waiters(f.ctx, topics); err != nil || got != nil {
		t.Errorf("who may not know gets %v, %v", got, err)
	}
}
