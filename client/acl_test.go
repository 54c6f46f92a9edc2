package client_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// rights are those of the documentation's line for a user.
func rights(t *testing.T, user string) string {
	t.Helper()
	for _, line := range rightsLines(t, "guarantees.md") {
		words := strings.Fields(line)
		if len(words) > 5 && words[0] == "ACL" && words[2] == user {
			return strings.Join(words[6:], " ") // behind reset, on and the password
		}
	}
	t.Fatalf("docs/guarantees.md has no ACL line for %s", user)
	return ""
}

// The Chinese page has the same lines, so nobody needs the English one for them.
func TestChineseRights(t *testing.T) {
	if got, want := rightsLines(t, "configuration.zh-CN.md"), rightsLines(t, "guarantees.md"); !slices.Equal(got, want) {
		t.Errorf("docs/configuration.zh-CN.md has\n%s\nand docs/guarantees.md has\n%s", strings.Join(got, ""), strings.Join(want, ""))
	}
}

// rightsLines are the ACL lines of a page, at least one.
func rightsLines(t *testing.T, page string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/" + page)
	check(t, err)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "    ACL SETUSER") {
			lines = append(lines, line)
		}
	}
	if len(lines) == 0 {
		t.Fatalf("docs/%s has no ACL line", page)
	}
	return lines
}

// The rights that docs/guarantees.md names suffice for all that producer and
// consumer do.
func TestDocumentedRights(t *testing.T) {
	f := start(t)
	ctx := t.Context()
	producer := f.as("delayer_producer", rights(t, "delayer_producer"))
	consumer := f.as("delayer_consumer", rights(t, "delayer_consumer"))
	waiting := f.waiter(ctx, consumer, "t")
	check(t, errOf(producer.Push(ctx, message("a"), time.Second)))
	for _, policy := range []client.Existing{client.Replace, client.KeepEarlier, client.KeepLater} {
		check(t, errOf(producer.Push(ctx, message("a"), time.Hour, client.IfExists(policy))))
	}
	check(t, errOf(producer.PushBatch(ctx, jobs(0, 3, "u", 0))))
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

// The same of those who reserve, and of operators.
func TestDocumentedRightsOfWorkers(t *testing.T) {
	f := start(t)
	ctx := t.Context()
	producer := f.as("delayer_producer", rights(t, "delayer_producer"))
	worker := f.as("delayer_worker", rights(t, "delayer_worker"))
	operator := f.as("delayer_operator", rights(t, "delayer_operator"))
	reserve := func(id string) *client.Delivery { t.Helper(); return f.reserveBy(worker, "t", id, time.Minute) }
	push := func(id string, opts ...client.PushOption) {
		t.Helper()
		check(t, errOf(producer.Push(ctx, message(id), 0, opts...)))
	}
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
	check(t, worker.Ping(ctx))
	pool := client.NewPool(client.PoolOptions{Addr: f.Addr, Username: "delayer_operator", Password: "p"})
	defer pool.Close()
	f.Do("HSET", "delayer:servers", "id", "{}")
	s := store.New(pool, store.DefaultPrefix)
	check(t, errOf(s.Servers(ctx)))
	if n, err := s.Acked(ctx); n != 1 || err != nil {
		t.Errorf("Acked = %d, %v", n, err)
	}
	f.Expect(state{})
	f.expectNothingDenied()
}
