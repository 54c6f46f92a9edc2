package server

import (
	"context"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// reserve leases the topic's next job.
func (w *world) reserve(topic string, lease time.Duration) store.LeaseRef {
	w.TB.Helper()
	wanted := store.Wanted{Topics: []string{topic}, N: 1}
	got, err := store.New(w.pool(), prefix).Reserve(wanted, store.Reservation{Lease: lease}).Do(context.Background())
	check(w.TB, err)
	return store.LeaseRef{Topic: topic, ID: got.Jobs[0].ID, Token: got.Leases[0].Token}
}

// When a lease ends, its job is redelivered at once, for any interval and any lifetime of the job, even if the lease
// was shortened.
func TestRunIsToldOfLeases(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.server = New(w.pool(), Options{Interval: time.Hour, Logger: w.log.logger()})
	w.run()
	awaitListeners(t, w.Server, 1)
	for n, id := range []string{"ends", "is shortened"} {
		w.Do("HSET", prefix+"job_bucket:"+id, "topic", "t", "body", "body")
		w.Do("PEXPIRE", prefix+"job_bucket:"+id, 30_000)
		w.Do("LPUSH", prefix+"ready_queue:t", id)
		lease := 200 * time.Millisecond
		if n == 0 {
			w.reserve("t", lease)
		} else {
			held := w.reserve("t", time.Hour)
			_, err := store.New(w.pool(), prefix).Extend([]*store.Extension{{LeaseRef: held, Lease: lease}}).Do(t.Context())
			check(t, err)
		}
		w.log.awaitMoved(t, n+1)
		w.Do("RPOP", prefix+"ready_queue:t")
	}
	w.log.expectErrors(t)
}

// A server without permission to subscribe polls the pool each second, for any interval.
func TestDeafServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.user(ordinary)
	w.server.options.Interval = longestSleep
	w.run()
	w.log.awaitError(t, "Cannot subscribe to delayer:first_due, jobs may be up to 1s late: NOPERM")
	for n, id := range []string{"a", "b"} {
		w.push(id, "t", 1)
		w.log.awaitMoved(t, n+1)
	}
}
