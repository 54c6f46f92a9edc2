package server

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redistest"
	"github.com/mix-basic/delayer/internal/store"
)

// With an interval of an hour and the next job due in an hour, a job pushed with
// a short delay can only be on time because the push says so; it does so to
// every server, and also after the connection was cut.
func TestRunIsToldOfAnEarlierJob(t *testing.T) {
	redisServer := redistest.Start(t)
	jobs := store.New(redisServer.Pool(), prefix)
	push := func(id string, delay time.Duration) {
		t.Helper()
		job := store.Job{ID: id, Topic: "t", Body: "b"}
		check(t, pushTo(t.Context(), jobs, job, store.Due{After: delay}))
	}
	push("far", time.Hour)

	ctx, cancel := context.WithCancel(t.Context())
	log, done := newRecorder(), make(chan error, 1)
	go func() {
		done <- New(redisServer.Pool(), Options{Interval: time.Hour, Logger: log}).Run(ctx)
	}()
	awaitListeners(t, redisServer, 1)
	push("near", 200*time.Millisecond)
	log.awaitMoved(t, 1)

	first := listeners(t, redisServer)
	redisServer.Do("CLIENT", "KILL", "TYPE", "pubsub")
	await(t, "another connection", func() bool {
		now := listeners(t, redisServer)
		return now != "" && now != first
	})
	awaitListeners(t, redisServer, 1)
	push("near again", 200*time.Millisecond)
	log.awaitMoved(t, 2)

	check(t, jobs.Reschedule(t.Context(), "far", 200*time.Millisecond))
	log.awaitMoved(t, 3)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	awaitListeners(t, redisServer, 0)
}

// listeners are the IDs of the connections that listen.
func listeners(t *testing.T, r *redistest.Server) (ids string) {
	t.Helper()
	list, err := redis.String(r.Do("CLIENT", "LIST", "TYPE", "pubsub"), nil)
	check(t, err)
	for line := range strings.Lines(list) {
		id, _, _ := strings.Cut(line, " ")
		ids += id + " "
	}
	return ids
}

// awaitListeners waits until so many servers listen.
func awaitListeners(t *testing.T, r *redistest.Server, want int64) {
	t.Helper()
	channel := store.New(nil, prefix).Keys().FirstDue()
	for deadline := time.Now().Add(hangs); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		reply := r.Do("PUBSUB", "NUMSUB", channel).([]any)
		if n, err := redis.Int64(reply[1], nil); err != nil || n == want {
			return
		}
	}
	t.Fatalf("not %d servers listen after %v", want, hangs)
}
