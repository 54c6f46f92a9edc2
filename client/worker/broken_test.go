package worker_test

import (
	"context"
	"testing"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/redistest"
)

// A topic whose ready queue is broken keeps no other from being waited for, and is served
// again when it is well.
func TestBrokenTopicHarmsNoOther(t *testing.T) {
	f := start(t)
	handled := make(chan string, 10)
	mux := worker.NewMux()
	for _, topic := range []string{"broken", "well", "fine"} {
		mux.HandleFunc(topic, func(_ context.Context, job *worker.Job) error {
			handled <- job.ID
			return nil
		})
	}
	f.Do("SET", "delayer:ready_queue:broken", "text")
	f.run(mux, worker.Options{})
	f.AwaitWaiter("well") // who waits was not refused
	for _, topic := range []string{"well", "fine"} {
		f.push(topic, topic)
		if id := next(t, handled); id != topic {
			t.Errorf("handled %q, want %q", id, topic)
		}
	}
	f.Do("DEL", "delayer:ready_queue:broken")
	f.push("healed", "broken")
	if id := next(t, handled); id != "healed" {
		t.Errorf("handled %q", id)
	}
}

// The same of all its topics: they are served when they are well.
func TestAllTopicsAreBroken(t *testing.T) {
	f := start(t)
	handled := make(chan string, 10)
	mux := worker.NewMux()
	for _, topic := range []string{"t", "u"} {
		f.Do("SET", "delayer:ready_queue:"+topic, "text")
		mux.HandleFunc(topic, func(_ context.Context, job *worker.Job) error {
			handled <- job.ID
			return nil
		})
	}
	f.run(mux, worker.Options{})
	for _, topic := range []string{"u", "t"} {
		f.Do("DEL", "delayer:ready_queue:"+topic)
		f.push(topic, topic)
		if id := next(t, handled); id != topic {
			t.Errorf("handled %q", id)
		}
	}
}

// A job that can't be made a dead letter keeps the worker neither from its topic's other jobs nor from
// other topics, be it for want of a right; the Client's logger names it once.
func TestJobThatCantBeBuried(t *testing.T) {
	for name, break_ := range map[string]func(f *fixture){
		"dead letters of another type": func(f *fixture) { f.Do("SET", "delayer:dead_letters:t", "text") },
		"no right to rename":           func(f *fixture) { f.Do("ACL", "SETUSER", "u", "-rename") },
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			f.Do("ACL", "SETUSER", "u", "on", ">p", "~*", "&*", "+@all")
			break_(f)
			var log redistest.Log
			pool := client.NewPool(client.PoolOptions{Addr: f.Addr, Username: "u", Password: "p"})
			c := client.New(pool, client.WithLogger(log.Logger()))
			t.Cleanup(func() {
				c.Close()
				pool.Close()
			})
			f.push("a", "t", client.MaxAttempts(1))
			f.Do("HSET", "delayer:job_bucket:a", "lease", "1 5 0")
			f.push("b", "t")
			f.push("c", "u")
			handled := make(chan string, 10)
			mux := worker.NewMux()
			for _, topic := range []string{"t", "u"} {
				mux.HandleFunc(topic, func(_ context.Context, job *worker.Job) error {
					handled <- job.ID
					return nil
				})
			}
			f.runOf(c, mux, worker.Options{})
			got := map[string]bool{next(t, handled): true, next(t, handled): true}
			if !got["b"] || !got["c"] {
				t.Errorf("handled %v, want b and c", got)
			}
			until(t, "it is put off", func() bool { return f.get("a").State == client.Waiting })
			f.dueNow("a")
			until(t, "it is put off again", func() bool {
				return f.Do("LLEN", "delayer:ready_queue:t") == int64(0) && f.get("a").State == client.Waiting
			})
			log.Expect(t, 1, "level=ERROR", "can't be made a dead letter", "topic=t", "id=a")
			log.Expect(t, 1, "level=")
			f.push("d", "t")
			if id := next(t, handled); id != "d" {
				t.Errorf("handled %q", id)
			}
		})
	}
}
