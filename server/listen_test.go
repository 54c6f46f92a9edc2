package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// The interval is an hour and the next job is due in an hour. A job with a short delay can only be on time if its push
// announces it to every server, even after the connection was cut.
func TestRunIsToldOfAnEarlierJob(t *testing.T) {
	w := newWorld(t)
	jobs := store.New(w.pool(), prefix)
	push := func(id string, delay time.Duration) {
		t.Helper()
		job := store.Job{ID: id, Topic: "t", Body: "b"}
		check(t, pushTo(t.Context(), jobs, job, store.Due{After: delay}))
	}
	push("far", time.Hour)
	w.server = New(w.pool(), Options{Interval: time.Hour, Logger: w.log.logger()})
	stop := w.run()
	// The interval in its heartbeat is no longer than heartbeats are valid: the heartbeat must not expire before the
	// server wakes.
	if s := w.awaitServer(t, "server", anything); s.Interval != longestSleep || s.Interval > store.AnnouncedWithin {
		t.Errorf("interval %v", s.Interval)
	}
	awaitListeners(t, w.Server, 1)
	push("near", 200*time.Millisecond)
	w.log.awaitMoved(t, 1)

	first := listeners(t, w.Server)
	w.Do("CLIENT", "KILL", "TYPE", "pubsub")
	until(t, "there is another connection", func() bool {
		now := listeners(t, w.Server)
		return now != "" && now != first
	})
	awaitListeners(t, w.Server, 1)
	push("near again", 200*time.Millisecond)
	w.log.awaitMoved(t, 2)

	check(t, jobs.Reschedule(t.Context(), "far", 200*time.Millisecond))
	w.log.awaitMoved(t, 3)
	stop()
	awaitListeners(t, w.Server, 0)
}

// listeners returns the IDs of the connections that are subscribed.
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

// awaitListeners waits until that many servers are subscribed.
func awaitListeners(t *testing.T, r *redistest.Server, want int64) {
	t.Helper()
	channel := store.New(nil, prefix).Keys().FirstDue()
	until(t, fmt.Sprint(want, " servers listen"), func() bool {
		return r.Do("PUBSUB", "NUMSUB", channel).([]any)[1] == want
	})
}
