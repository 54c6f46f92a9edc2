package delayertest_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/delayertest"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// check fails the test on an error.
var check = redistest.Check

const topic = "close_order"

func push(t *testing.T, d *delayertest.Delayer, id string, delay time.Duration, opts ...client.PushOption) {
	t.Helper()
	_, err := d.Client().Push(t.Context(), client.Message{ID: id, Topic: topic, Body: "body"}, delay, opts...)
	check(t, err)
}

func reserve(t *testing.T, d *delayertest.Delayer, lease time.Duration) *client.Delivery {
	t.Helper()
	list, err := d.Client().Fetch(t.Context(), clienttest.Ready(topic, 1, lease))
	check(t, err)
	return list[0]
}

// runScripts moves the clock through all its microseconds, more than once.
func runScripts(t *testing.T, d *delayertest.Delayer) {
	t.Helper()
	conn, err := redis.DialURL(d.URL())
	check(t, err)
	defer conn.Close()
	for range 1100 {
		_, err := conn.Do("EVAL", "return 1", 0)
		check(t, err)
	}
}

// expect compares the topic's jobs, each as "ID state attempts", plus "in duration" if it has a due time.
func expect(t *testing.T, d *delayertest.Delayer, want ...string) {
	t.Helper()
	var got []string
	for _, job := range d.Jobs(t, topic) {
		line := fmt.Sprintf("%s %s %d", job.ID, job.State, job.Attempts)
		if job.State == client.StateWaiting {
			line += fmt.Sprintf(" in %v", job.Due.Sub(d.Now()))
		}
		got = append(got, line)
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("jobs:\n got %q\nwant %q", got, want)
	}
}

// newWorker returns a quiet worker with two attempts a minute apart.
func newWorker(d *delayertest.Delayer, h worker.HandlerFunc) *worker.Worker {
	mux := worker.NewMux()
	mux.Handle(topic, h)
	return worker.New(d.Client(), mux, worker.Options{
		MaxAttempts: 2,
		Backoff:     func(*worker.Job, error) time.Duration { return time.Minute },
		Logger:      slog.New(slog.DiscardHandler),
	})
}

// failing is a test that is expected to fail.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure returns the message with which use fails its test, or "".
func failure(t *testing.T, use func(t testing.TB)) string {
	f := &failing{TB: t}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		use(f)
	}()
	<-ended
	return f.message
}
