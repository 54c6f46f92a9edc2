package fleet

import (
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/devredis"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// check fails the test on an error.
var check = redistest.Check

// backend is an empty Redis and its single partition.
type backend struct {
	*store.Store
	*redistest.Fixture
}

func newBackend(f *redistest.Fixture) *backend {
	return &backend{store.New(f.Pool(), store.DefaultPrefix), f}
}

// onRedis starts a redis-server.
func onRedis(tb testing.TB, args ...string) (*backend, *redistest.Server) {
	tb.Helper()
	server := redistest.Start(tb, args...)
	return newBackend(server.Fixture), server
}

// onEach runs the test on a redis-server and on the server of --dev.
func onEach(t *testing.T, test func(t *testing.T, b *backend)) {
	startMini := func(t *testing.T) string {
		m, err := devredis.Start("127.0.0.1:0")
		check(t, err)
		t.Cleanup(m.Close)
		return m.Addr
	}
	redistest.OnEach(t, startMini, func(t *testing.T, f *redistest.Fixture) { test(t, newBackend(f)) }, redistest.Alone)
}

func (b *backend) do(tb testing.TB, command string, args ...any) any {
	tb.Helper()
	return b.With(tb).Do(command, args...)
}

// made returns the result of a call that must succeed.
func made[T any](t *testing.T, c *store.Call[T]) T {
	t.Helper()
	answer, err := c.Do(t.Context())
	check(t, err)
	return answer
}

// delayed is a job to push.
func delayed(id, topic string, delay time.Duration) store.Delayed {
	return store.Delayed{Job: store.Job{ID: id, Topic: topic, Body: "b"}, Due: store.Due{After: delay}, Terms: store.Terms{Lifetime: time.Hour, Policy: store.Replace}}
}

// push stores a job in this partition.
func push(t *testing.T, s *store.Store, id, topic string, delay time.Duration) {
	t.Helper()
	check(t, made(t, s.Push([]store.Delayed{delayed(id, topic, delay)}))[0])
}

func aSchedule(name string) store.Schedule {
	return store.Schedule{Name: name, Spec: "@every 1m", Zone: "UTC", Topic: "t", Body: "body", Missed: store.MissedOnce, Overlap: store.OverlapAllow,
		Terms: store.Terms{Lifetime: 7 * 24 * time.Hour}}
}

// inAnHour returns a whole second.
func (b *backend) inAnHour() time.Time { return time.Unix(int64(b.Clock())+3600, 0) }

// open returns n partitions in that Redis.
func open(r redisconn.Redis, n int) *Fleet {
	return redistest.Must(Open(NewRedis(r, n, nil), ""))
}
