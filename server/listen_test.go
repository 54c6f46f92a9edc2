package server

import (
	"context"
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
	w.server = serverOn(w.pool(), 1, Options{Interval: time.Hour, Logger: w.log.logger()})
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
	w.server = serverOn(w.pool(), 1, Options{Interval: time.Hour, Logger: w.log.logger()})
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

// fakeTimer fires when the test makes it fire.
type fakeTimer struct {
	set  time.Duration
	ring chan struct{}
}

func (f *fakeTimer) reset(d time.Duration) { f.set = d }
func (f *fakeTimer) wait()                 { <-f.ring }
func (f *fakeTimer) close()                {}

func TestWakeTimerTakesTheEarliest(t *testing.T) {
	timer := &fakeTimer{ring: make(chan struct{}, 1)}
	a := &wakeTimer{precise: timer}
	expect := func(want time.Duration) {
		t.Helper()
		if timer.set > want || timer.set < want-time.Minute { // the duration counts from the call
			t.Errorf("it rings after %v, want %v", timer.set, want)
		}
	}
	start := time.Now()
	for _, h := range []time.Duration{5, 3, 9, 4} {
		a.wakeBy(start.Add(h * time.Hour))
	}
	expect(3 * time.Hour)
	timer.ring <- struct{}{}
	a.sleepUntil(start.Add(8 * time.Hour)) // a time that is set before the sleep counts
	expect(3 * time.Hour)
	timer.ring <- struct{}{}
	a.sleepUntil(start.Add(8 * time.Hour)) // only once
	expect(8 * time.Hour)
	timer.ring <- struct{}{}
	a.sleepUntil(start)
	expect(minWait)
	a.wakeBy(start)
	expect(minWait)
}

func TestTimers(t *testing.T) {
	for name, timer := range map[string]timer{"of the system": newTimer(), "Go's": newGoTimer()} {
		t.Run(name, func(t *testing.T) {
			defer timer.close()
			for _, d := range []time.Duration{-time.Second, 0, 1, time.Millisecond, 3 * time.Millisecond} {
				started := time.Now()
				timer.reset(d)
				timer.wait()
				if took := time.Since(started); took < d {
					t.Errorf("it rang after %v, want %v", took, d)
				}
			}

			timer.reset(time.Hour)
			rung := make(chan struct{})
			go func() {
				timer.wait()
				close(rung)
			}()
			timer.reset(time.Millisecond) // during the wait or before it
			<-rung

			timer.reset(1)
			time.Sleep(time.Millisecond) // usually the timer has fired by now
			started := time.Now()
			timer.reset(20 * time.Millisecond)
			timer.wait()
			if took := time.Since(started); took < 20*time.Millisecond {
				t.Errorf("it rang after %v, as it was set before", took)
			}
		})
	}
}
