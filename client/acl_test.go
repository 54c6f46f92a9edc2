package client_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/redistest"
	"github.com/mix-basic/delayer/internal/store"
)

// The Chinese page has the same lines, so nobody needs the English one for them.
func TestChineseRights(t *testing.T) {
	lines := func(page string) []string {
		text, err := os.ReadFile("../docs/" + page)
		check(t, err)
		return slices.DeleteFunc(slices.Collect(strings.Lines(string(text))), func(line string) bool { return !strings.HasPrefix(line, "    ACL SETUSER") })
	}
	if got, want := lines("configuration.zh-CN.md"), lines("guarantees.md"); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("docs/configuration.zh-CN.md has\n%s\nand docs/guarantees.md has\n%s", strings.Join(got, ""), strings.Join(want, ""))
	}
}

// The rights that docs/guarantees.md names suffice for all that producer and
// consumer do.
func TestDocumentedRights(t *testing.T) {
	f := start(t, alone, undivided)
	ctx := t.Context()
	producer := f.as("producer", redistest.Rights(t, "producer"))
	consumer := f.as("consumer", redistest.Rights(t, "consumer"))
	waiting := f.waiter(ctx, consumer, "t")
	check(t, errOf(producer.Push(ctx, message("a"), time.Second)))
	for _, policy := range []client.Existing{client.Replace, client.KeepEarlier, client.KeepLater} {
		check(t, errOf(producer.Push(ctx, message("a"), time.Hour, client.IfExists(policy))))
	}
	check(t, errOf(producer.Push(ctx, message("once"), time.Hour, client.Once(time.Hour))))
	check(t, errOf(producer.Push(ctx, message("once"), time.Hour, client.IfExists(client.Debounce(time.Hour)))))
	check(t, errOf(producer.Remove(ctx, "once")))
	for n := range 2 { // of which the second one is ready
		id, err := producer.Push(ctx, client.Message{ID: fmt.Sprint(n), Topic: "grouped", Body: "1"}, 0, client.Group("k", client.GroupOptions{Max: 2, Quiet: time.Hour}), client.Once(time.Millisecond))
		check(t, err)
		if n == 1 {
			check(t, errOf(producer.Remove(ctx, id)))
		}
	}
	f.Do("DEL", "delayer:once")
	check(t, errOf(producer.PushBatch(ctx, jobs(0, 3, "u", 0))))
	expectReplicas(t, errOf(producer.Push(ctx, message("a"), time.Hour, client.Replicas(1, time.Millisecond))), 1, 0, "")
	check(t, errOf(producer.PushBatch(ctx, jobs(0, 1, "u", time.Hour)))) // of a job that is ready
	check(t, errOf(producer.Get(ctx, "a")))
	check(t, producer.Reschedule(ctx, "a", time.Minute))
	check(t, producer.Reschedule(ctx, "a", 0))
	check(t, producer.Ping(ctx))
	expectJob(t, waiting, "a")
	if removed, err := producer.Remove(ctx, "0001"); !removed || err != nil {
		t.Errorf("Remove = %v, %v", removed, err)
	}
	expectJob(t, background(func() (client.Message, error) { return consumer.Pop(ctx, "u") }), "0002")
	// An entry that belongs to another topic.
	f.Do("HSET", "delayer:job_bucket:stray", "topic", "v", "body", "b")
	f.Do("LPUSH", "delayer:ready_queue:t", "stray")
	expectJob(t, bpop(ctx, consumer, hangBound, "t", "v"), "stray")
	check(t, consumer.Ping(ctx))
	f.Expect(state{Pool: []string{"0000"}, Buckets: buckets{"0000": "u b"}})
	f.expectNothingDenied()
}

// expectNothingDenied checks that Redis has refused no command, be it one that a script
// can do without.
func (f *fixture) expectNothingDenied() {
	f.TB.Helper()
	if denied := f.Do("ACL", "LOG").([]any); len(denied) > 0 {
		f.TB.Errorf("Redis has refused %q", denied)
	}
}

// The same of schedules.
func TestDocumentedRightsOnSchedules(t *testing.T) {
	f := start(t, alone, undivided)
	ctx := t.Context()
	producer, operator := f.as("producer", redistest.Rights(t, "producer")), f.as("operator", redistest.Rights(t, "operator"))
	check(t, errOf(producer.Schedule(ctx, hourly("a"))))
	check(t, producer.PauseSchedule(ctx, "a"))
	check(t, producer.ResumeSchedule(ctx, "a"))
	check(t, errOf(producer.RunNow(ctx, "a")))
	check(t, errOf(operator.Schedules(ctx)))
	check(t, errOf(producer.Unschedule(ctx, "a")))
	both := f.as("both", redistest.Rights(t, "producer")+" "+redistest.Rights(t, "operator"))
	for _, schedules := range [][]client.Schedule{{hourly("a"), hourly("b")}, {hourly("a")}} {
		check(t, errOf(both.SetSchedules(ctx, "me", schedules)))
	}
	f.expectNothingDenied()
}

// The same of those who reserve, and of operators.
func TestDocumentedRightsOfWorkers(t *testing.T) {
	f := start(t, alone, undivided)
	ctx := t.Context()
	producer := f.as("producer", redistest.Rights(t, "producer"))
	worker := f.as("worker", redistest.Rights(t, "worker"))
	operator := f.as("operator", redistest.Rights(t, "operator"))
	reserve := func(id string) *client.Delivery { t.Helper(); return f.reserveBy(worker, "t", id, time.Minute) }
	push := func(id string, opts ...client.PushOption) {
		t.Helper()
		check(t, errOf(producer.Push(ctx, message(id), 0, opts...)))
	}
	check(t, operator.SetLimit(ctx, "t", client.Limit{Concurrency: 2, Rate: 1000, Burst: 100}))
	push("a", client.MaxAttempts(2), client.TTR(time.Minute), client.ReadyMaxLifetime(time.Minute))
	d := reserve("a")
	check(t, d.Extend(ctx, time.Hour))
	check(t, d.Release(ctx))
	check(t, reserve("a").Retry(ctx, 0, client.Cause(client.ErrEmpty)))
	expectErr(t, "Retry of the last attempt", reserve("a").Retry(ctx, time.Second), client.ErrExhausted)
	for _, err := range operator.Dead(ctx, "t") {
		check(t, err)
	}
	check(t, operator.Requeue(ctx, "a"))
	check(t, reserve("a").Ack(ctx))
	push("b")
	check(t, reserve("b").Postpone(ctx, time.Second))
	check(t, producer.Reschedule(ctx, "b", 0))
	check(t, reserve("b").Bury(ctx, "why"))
	check(t, errOf(operator.Get(ctx, "b")))
	check(t, errOf(operator.RequeueAll(ctx, "t")))
	d = reserve("b")
	push("b", client.IfExists(client.Follow))
	check(t, d.Ack(ctx))
	d = reserve("b")
	push("b") // ends the lease
	expectErr(t, "Ack of what was pushed anew", d.Ack(ctx), client.ErrLeaseLost)
	reserve("b")
	check(t, producer.Reschedule(ctx, "b", 0))
	reserve("b")
	if removed, err := producer.Remove(ctx, "b"); !removed || err != nil {
		t.Errorf("Remove = %v, %v", removed, err)
	}
	push("c")
	check(t, reserve("c").Bury(ctx, "why"))
	check(t, errOf(operator.Stats(ctx)))
	if n, err := operator.DropAllDead(ctx, "t"); n != 1 || err != nil {
		t.Errorf("DropAllDead = %d, %v", n, err)
	}
	// A job with a follower, whose lease is over.
	check(t, errOf(producer.Push(ctx, message("f"), 0)))
	check(t, errOf(f.Reserve(ctx, 0, time.Hour, "t")))
	check(t, errOf(producer.Push(ctx, message("f"), 0, client.IfExists(client.Follow))))
	f.Do("ZREM", "delayer:job_pool", "f")
	f.Do("LPUSH", "delayer:ready_queue:t", "f")
	f.Do("HDEL", "delayer:reserved", "t")
	for range 2 {
		expectJob(t, background(func() (client.Message, error) { return worker.Pop(ctx, "t") }), "f")
	}
	check(t, operator.Pause(ctx, "t", client.PauseOptions{For: time.Hour, Note: "note"}))
	check(t, worker.BackOff(ctx, "t", time.Hour))
	push("paused")
	check(t, errOf(operator.Paused(ctx)))
	check(t, errOf(operator.Resume(ctx, "t")))
	d = reserve("paused")
	check(t, worker.BackOff(ctx, "t", time.Hour))
	check(t, d.Release(ctx))
	check(t, errOf(operator.Resume(ctx, "t")))
	check(t, errOf(producer.Remove(ctx, "paused")))
	check(t, operator.SetLimit(ctx, "t", client.Limit{}))
	check(t, operator.SetLimit(ctx, "t", client.Limit{Concurrency: 2, Rate: 1000, Burst: 100}))
	push("d")
	extended := reserve("d")
	f.Do("ZADD", "delayer:slots:t", 1, "d") // as if its lease would have ended
	push("e")
	reserve("e")
	push("f")
	_, err := worker.ReserveBatch(ctx, "t", 1, time.Minute)
	expectErr(t, "ReserveBatch beyond the limit", err, client.ErrEmpty)
	check(t, errOf(producer.Remove(ctx, "f")))
	check(t, errOf(producer.Remove(ctx, "e")))
	check(t, extended.Ack(ctx))
	check(t, operator.SetLimit(ctx, "t", client.Limit{}))
	check(t, worker.Ping(ctx))
	pool := f.newPool(client.PoolOptions{Username: "operator", Password: "p"})
	f.Do("HSET", "delayer:servers", "id", "{}")
	s := store.New(pool, f.Prefix)
	check(t, errOf(s.Servers(ctx)))
	if n, err := s.Acked(ctx); n != 3 || err != nil {
		t.Errorf("Acked = %d, %v", n, err)
	}
	f.Expect(state{})
	f.expectNothingDenied()
}
