package worker_test

import (
	"context"
	"slices"
	"testing"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// deliver is a handler that sends the job's ID.
func deliver(to chan<- string) func(context.Context, *worker.Job) error {
	return func(_ context.Context, job *worker.Job) error {
		to <- job.ID
		return nil
	}
}

// A topic with a broken ready queue does not keep the worker from waiting for other topics. It is served again once
// repaired, and the log names it once.
func TestBrokenTopicHarmsNoOther(t *testing.T) {
	for name, broken := range map[string][]string{"one": {"broken"}, "all": {"broken", "well", "fine"}} {
		t.Run(name, func(t *testing.T) {
			f := start(t, undivided)
			var log redistest.Log
			handled := make(chan string, 10)
			for _, topic := range broken {
				f.Do("SET", "delayer:ready_queue:"+topic, "text")
			}
			f.run(muxOf(deliver(handled), "broken", "well", "fine"), worker.Options{Logger: log.Logger()})
			if len(broken) == 1 {
				f.AwaitWaiter("well") // a waiter is registered, so the call was not refused
			}
			until(t, "it is told", func() bool { return len(log.Lines("can't fetch jobs", "WRONGTYPE")) >= len(broken) })
			for _, topic := range []string{"well", "fine", "broken"} {
				if slices.Contains(broken, topic) {
					f.Do("DEL", "delayer:ready_queue:"+topic)
				}
				f.push(topic, topic)
				if id := next(t, handled); id != topic {
					t.Errorf("handled %q, want %q", id, topic)
				}
			}
			log.Expect(t, len(broken), "can't fetch jobs")
			until(t, "it is told that they are well again", func() bool { return len(log.Lines("fetches jobs again")) == len(broken) })
		})
	}
}

// A job that cannot be buried, for example because a permission is missing, does not keep the worker from
// other jobs, and the Client's logger names it once.
func TestJobThatCantBeBuried(t *testing.T) {
	for name, break_ := range map[string]func(f *fixture){
		"dead letters of another type": func(f *fixture) { f.Do("SET", "delayer:dead_letters:t", "text") },
		"no right to rename":           func(f *fixture) { f.Do("ACL", "SETUSER", "u", "-rename") },
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t, alone, undivided)
			f.Do("ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all")
			break_(f)
			var log redistest.Log
			c := f.open(client.PoolOptions{Username: "u", Password: "p"}, client.WithLogger(log.Logger()))
			f.push("a", "t", client.JobOptions{MaxAttempts: 1})
			f.Do("HSET", "delayer:job_bucket:a", "lease", "1 5 0")
			f.push("b", "t")
			f.push("c", "u")
			handled := make(chan string, 10)
			f.runOf(c, muxOf(deliver(handled), "t", "u"), worker.Options{})
			got := map[string]bool{next(t, handled): true, next(t, handled): true}
			if !got["b"] || !got["c"] {
				t.Errorf("handled %v, want b and c", got)
			}
			until(t, "it is put off", func() bool { return f.get("a").State == client.StateWaiting })
			f.dueNow("a")
			until(t, "it is put off again", func() bool {
				return f.Do("LLEN", "delayer:ready_queue:t") == int64(0) && f.get("a").State == client.StateWaiting
			})
			log.Expect(t, 1, "level=ERROR", "can't be made a dead letter", "topic=t", "job=a")
			log.Expect(t, 1, "level=")
			f.push("d", "t")
			if id := next(t, handled); id != "d" {
				t.Errorf("handled %q", id)
			}
		})
	}
}
