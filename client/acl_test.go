package client_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// rights are those of the documentation's line for a user.
func rights(t *testing.T, user string) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Fields(line)
		if len(words) > 5 && words[0] == "ACL" && words[2] == user {
			return words[6:] // behind reset, on and the password
		}
	}
	t.Fatalf("docs/guarantees.md has no ACL line for %s", user)
	return nil
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
}
