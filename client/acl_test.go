package client_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// rights are those of the documentation's line for a user.
func rights(t *testing.T, user string) []string {
	t.Helper()
	for _, line := range rightsLines(t, "guarantees.md") {
		words := strings.Fields(line)
		if len(words) > 5 && words[0] == "ACL" && words[2] == user {
			return words[6:] // behind reset, on and the password
		}
	}
	t.Fatalf("docs/guarantees.md has no ACL line for %s", user)
	return nil
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

// as is a Client whose user has the rights.
func (f *fixture) as(user string, rights []string) *client.Client {
	f.t.Helper()
	args := []any{"SETUSER", user, "reset", "on", ">secret"}
	for _, right := range rights {
		args = append(args, right)
	}
	f.do("ACL", args...)
	c := client.OpenPool(client.PoolOptions{Addr: f.redis.Addr, Username: user, Password: "secret"})
	f.t.Cleanup(func() { c.Close() })
	return c
}

// The rights that docs/guarantees.md names suffice for all that producer and
// consumer do.
func TestDocumentedRights(t *testing.T) {
	f := start(t)
	ctx := t.Context()
	producer := f.as("delayer_producer", rights(t, "delayer_producer"))
	consumer := f.as("delayer_consumer", rights(t, "delayer_consumer"))
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	waiting := background(func() (client.Message, error) { return consumer.BPop(ctx, 0, "t") })
	f.waits(consumer, "t", 1)
	_, err := producer.Push(ctx, client.Message{ID: "a", Topic: "t", Body: "b"}, time.Second)
	check("Push", err)
	for _, policy := range []client.Existing{client.Replace, client.KeepEarlier, client.KeepLater} {
		_, err = producer.Push(ctx, client.Message{ID: "a", Topic: "t", Body: "b"}, time.Hour, client.IfExists(policy))
		check("Push again", err)
	}
	_, err = producer.PushBatch(ctx, jobs(0, 3, "u", 0))
	check("PushBatch", err)
	_, err = producer.PushBatch(ctx, jobs(0, 1, "u", time.Hour)) // of a job that is ready
	check("PushBatch of what is ready", err)
	_, err = producer.Get(ctx, "a")
	check("Get", err)
	check("Reschedule", producer.Reschedule(ctx, "a", time.Minute))
	check("Reschedule to now", producer.Reschedule(ctx, "a", 0))
	check("Ping", producer.Ping(ctx))
	expectJob(t, waitFor(t, waiting), "a")
	removed, err := producer.Remove(ctx, "0001")
	if check("Remove", err); !removed {
		t.Error("Remove removed nothing")
	}
	m, err := consumer.Pop(ctx, "u")
	if check("Pop", err); m.ID != "0002" {
		t.Errorf("Pop = %v", m)
	}
	// An entry that belongs to another topic.
	f.do("HSET", "delayer:job_bucket:stray", "topic", "v", "body", "b")
	f.do("LPUSH", "delayer:ready_queue:t", "stray")
	m, err = consumer.BPop(ctx, hangBound, "t", "v")
	if check("BPop", err); m.ID != "stray" {
		t.Errorf("BPop = %v", m)
	}
	check("Ping", consumer.Ping(ctx))
	f.expect(state{Pool: []string{"0000"}, Buckets: buckets{"0000": "u b"}})
	f.expectNothingDenied()
}

// expectNothingDenied checks that Redis has refused no command, be it one that a script
// can do without.
func (f *fixture) expectNothingDenied() {
	f.t.Helper()
	if denied := f.do("ACL", "LOG").([]any); len(denied) > 0 {
		f.t.Errorf("Redis has refused %q", denied)
	}
}

// The same of those who reserve, and of operators.
func TestDocumentedRightsOfWorkers(t *testing.T) {
	f := start(t)
	ctx := t.Context()
	producer := f.as("delayer_producer", rights(t, "delayer_producer"))
	worker := f.as("delayer_worker", rights(t, "delayer_worker"))
	operator := f.as("delayer_operator", rights(t, "delayer_operator"))
	check := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	reserve := func() *client.Delivery {
		t.Helper()
		d, err := worker.Reserve(ctx, hangBound, time.Minute, "t")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	push := func(id string, opts ...client.PushOption) {
		t.Helper()
		_, err := producer.Push(ctx, client.Message{ID: id, Topic: "t", Body: "b"}, 0, opts...)
		check("Push", err)
	}
	push("a", client.MaxAttempts(2), client.TTR(time.Minute), client.ReadyMaxLifetime(time.Minute))
	d := reserve()
	check("Extend", d.Extend(ctx, time.Hour))
	check("Release", d.Release(ctx))
	check("Retry", reserve().Retry(ctx, 0, client.Cause(client.ErrEmpty)))
	if err := reserve().Retry(ctx, time.Second); !errors.Is(err, client.ErrExhausted) {
		t.Errorf("Retry of the last attempt: %v", err)
	}
	for letter, err := range operator.Dead(ctx, "t") {
		check("Dead of "+letter.ID, err)
	}
	check("Requeue", operator.Requeue(ctx, "a"))
	check("Ack", reserve().Ack(ctx))
	push("b")
	check("Postpone", reserve().Postpone(ctx, time.Second))
	check("Reschedule", producer.Reschedule(ctx, "b", 0))
	check("Bury", reserve().Bury(ctx, "why"))
	_, err := operator.Get(ctx, "b")
	check("Get", err)
	_, err = operator.RequeueAll(ctx, "t")
	check("RequeueAll", err)
	d = reserve()
	push("b") // ends the lease
	if err := d.Ack(ctx); !errors.Is(err, client.ErrLeaseLost) {
		t.Errorf("Ack of what was pushed anew: %v", err)
	}
	reserve()
	check("Reschedule", producer.Reschedule(ctx, "b", 0))
	reserve()
	removed, err := producer.Remove(ctx, "b")
	if check("Remove", err); !removed {
		t.Error("Remove removed nothing")
	}
	push("c")
	check("Bury", reserve().Bury(ctx, "why"))
	_, err = operator.Stats(ctx)
	check("Stats", err)
	if n, err := operator.DropAllDead(ctx, "t"); n != 1 || err != nil {
		t.Errorf("DropDead = %d, %v", n, err)
	}
	check("Ping", worker.Ping(ctx))
	pool := client.NewPool(client.PoolOptions{Addr: f.redis.Addr, Username: "delayer_operator", Password: "secret"})
	defer pool.Close()
	f.do("HSET", "delayer:servers", "id", "{}")
	_, err = store.New(pool, "delayer:").Servers(ctx)
	check("Servers", err)
	if n, err := store.New(pool, "delayer:").Acked(ctx); n != 1 || err != nil {
		t.Errorf("Acked = %d, %v", n, err)
	}
	f.expect(state{})
	f.expectNothingDenied()
}
