package operator

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/devredis"
	"github.com/mix-basic/delayer/internal/redistest"
)

// fixture is an Operator on an empty Redis, a Client on the same, and the test's own connection.
type fixture struct {
	*Operator
	client *client.Client
	conn   redis.Conn
	ctx    context.Context
	t      testing.TB
	mini   bool // it is what serves --dev
	addr   string
}

func newFixture(t testing.TB, addr string) *fixture {
	pool := client.NewPool(client.PoolOptions{Addr: addr})
	conn := pool.Get()
	c := client.New(pool)
	t.Cleanup(func() {
		c.Close()
		conn.Close()
		pool.Close()
	})
	return &fixture{Operator: New(pool, ""), client: c, conn: conn, ctx: t.Context(), t: t, addr: addr}
}

// onRedis starts a redis-server.
func onRedis(t testing.TB) (*fixture, *redistest.Server) {
	t.Helper()
	server := redistest.Start(t)
	return newFixture(t, server.Addr), server
}

// onEach runs the test on a redis-server, and on what serves --dev.
func onEach(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		f, _ := onRedis(t)
		test(t, f)
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		server, err := devredis.Start("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Close)
		f := newFixture(t, server.Addr)
		f.mini = true
		test(t, f)
	})
}

func (f *fixture) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) do(command string, args ...any) any {
	f.t.Helper()
	reply, err := f.conn.Do(command, args...)
	if err != nil {
		f.t.Fatalf("%s %.200q: %v", command, args, err)
	}
	return reply
}

// push stores a job, whose body is that of its ID.
func (f *fixture) push(topic, id string, delay time.Duration, opts ...client.PushOption) {
	f.t.Helper()
	_, err := f.client.Push(f.ctx, client.Message{ID: id, Topic: topic, Body: "body of " + id}, delay, opts...)
	f.check(err)
}

// pushMany stores n jobs: id0, id1, …, each falls due that much after the one before.
func (f *fixture) pushMany(topic, id string, n int, delay, step time.Duration) {
	f.t.Helper()
	at := time.Now().Add(delay)
	for i := range n {
		f.do("HSET", fmt.Sprint("delayer:job_bucket:", id, i), "topic", topic, "body", "b")
		f.do("ZADD", "delayer:job_pool", score(at.Add(time.Duration(i)*step)), fmt.Sprint(id, i))
	}
}

// score is a due time as one.
func score(at time.Time) string { return fmt.Sprintf("%d.%03d", at.Unix(), at.Nanosecond()/1e6) }

func (f *fixture) reserve(topic string, lease time.Duration) *client.Delivery {
	f.t.Helper()
	d, err := f.client.Reserve(f.ctx, time.Second, lease, topic)
	f.check(err)
	return d
}

// bury makes a dead letter.
func (f *fixture) bury(topic, id, reason, cause string) {
	f.t.Helper()
	f.push(topic, id, 0)
	f.check(f.reserve(topic, time.Minute).Bury(f.ctx, reason, client.Cause(fmt.Errorf("%s", cause))))
}

// text puts a string where none belongs.
func (f *fixture) text(key string) { f.do("SET", "delayer:"+key, "text") }
