package inspect

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/devredis"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// fixture is an Inspector and a Client on an empty Redis.
type fixture struct {
	*Inspector
	*redistest.Fixture
	client *client.Client
	ctx    context.Context
}

func newFixture(on *redistest.Fixture) *fixture {
	pool := on.Pool()
	c := clienttest.On(pool)
	on.TB.Cleanup(func() { c.Close() })
	return &fixture{Inspector: open(pool, 1), Fixture: on, client: c, ctx: on.TB.Context()}
}

// open returns an Inspector of that many partitions.
func open(conns redisconn.Redis, partitions int) *Inspector {
	o := New(redistest.Must(fleet.Open(fleet.NewRedis(conns, partitions, nil), "")))
	o.patience = time.Minute // on a busy machine, too
	return o
}

// onRedis starts a redis-server.
func onRedis(t testing.TB) (*fixture, *redistest.Server) {
	t.Helper()
	server := redistest.Start(t)
	return newFixture(server.Fixture), server
}

// onEach runs the test on a redis-server and on the in-memory Redis of --dev.
func onEach(t *testing.T, test func(t *testing.T, f *fixture)) {
	startMini := func(t *testing.T) string {
		server, err := devredis.Start("127.0.0.1:0")
		redistest.Check(t, err)
		t.Cleanup(server.Close)
		return server.Addr
	}
	redistest.OnEach(t, startMini, func(t *testing.T, on *redistest.Fixture) { test(t, newFixture(on)) }, redistest.Alone)
}

func (f *fixture) check(err error) { f.TB.Helper(); redistest.Check(f.TB, err) }

// send sends a command whose reply is read by flush: thousands of them share a round trip.
func (f *fixture) send(command string, args ...any) {
	f.TB.Helper()
	f.check(f.Conn().Send(command, args...))
}

func (f *fixture) flush() {
	f.TB.Helper()
	_, err := f.Conn().Do("")
	f.check(err)
}

// push stores a job whose body is derived from its ID.
func (f *fixture) push(topic, id string, delay time.Duration, opts ...client.PushOption) {
	f.TB.Helper()
	_, err := f.client.Push(f.ctx, client.Message{ID: id, Topic: topic, Body: "body of " + id}, delay, opts...)
	f.check(err)
}

// pushMany stores n jobs: id0, id1, … Each falls due one step after the previous one.
func (f *fixture) pushMany(topic, id string, n int, delay, step time.Duration) {
	f.TB.Helper()
	at := time.Now().Add(delay)
	for i := range n {
		f.send("HSET", fmt.Sprint("delayer:job_bucket:", id, i), "topic", topic, "body", "b")
		f.send("ZADD", "delayer:job_pool", score(at.Add(time.Duration(i)*step)), fmt.Sprint(id, i))
	}
	f.flush()
}

// score formats a due time as a score.
func score(at time.Time) string { return fmt.Sprintf("%d.%03d", at.Unix(), at.Nanosecond()/1e6) }

func (f *fixture) reserve(topic string, lease time.Duration) *client.Delivery {
	f.TB.Helper()
	d, err := f.client.Reserve(f.ctx, lease, topic)
	f.check(err)
	return d
}

// bury creates a dead letter. Its reason is not its error, as that of a job whose attempts are used up.
func (f *fixture) bury(topic, id, reason, cause string) {
	f.TB.Helper()
	f.push(topic, id, 0)
	f.check(f.reserve(topic, time.Minute).Bury(f.ctx, errors.New(cause)))
	f.Do("HSET", "delayer:dead_letter:"+id, "reason", reason)
}

// text stores a string under a key of another type.
func (f *fixture) text(key string) { f.Do("SET", "delayer:"+key, "text") }
