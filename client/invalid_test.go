package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

// What is wrong is said with the field's name, and nothing is sent, nor Redis asked for a connection.
func TestInvalid(t *testing.T) {
	c := client.New(&redis.Pool{DialContext: func(context.Context) (redis.Conn, error) {
		t.Error("Redis was asked")
		return nil, errors.New("no Redis")
	}})
	defer c.Close()
	ctx := context.Background()
	m := client.Message{ID: "a", Topic: "t", Body: "b"}
	push := func(m client.Message, delay time.Duration, opts ...client.PushOption) error {
		_, err := c.Push(ctx, m, delay, opts...)
		return err
	}
	pushAt := func(m client.Message, due time.Time, opts ...client.PushOption) error {
		_, err := c.PushAt(ctx, m, due, opts...)
		return err
	}
	popped := func(_ any, err error) error { return err }
	for name, tt := range map[string]struct {
		err   error
		names string
	}{
		"push: topic":            {push(client.Message{ID: "a", Body: "b"}, 1), "invalid topic: "},
		"push: body":             {push(client.Message{ID: "a", Topic: "t"}, 1), "invalid body: "},
		"push: delay":            {push(m, -1), "invalid delay: -1ns "},
		"push: long delay":       {push(m, client.MaxDelay+1), "invalid delay: 876000h0m0.000000001s "},
		"push: lifetime 0":       {push(m, 1, client.ReadyMaxLifetime(0)), "invalid ready max lifetime: 0s "},
		"push: lifetime":         {push(m, 1, client.ReadyMaxLifetime(-time.Second)), "invalid ready max lifetime: -1s "},
		"push: long lifetime":    {push(m, 1, client.ReadyMaxLifetime(client.MaxDelay+1)), "invalid ready max lifetime: "},
		"push: policy":           {push(m, 1, client.IfExists(client.Existing{})), "invalid IfExists: "},
		"pushAt: topic":          {pushAt(client.Message{Body: "b"}, time.Now()), "invalid topic: "},
		"pushAt: body":           {pushAt(client.Message{Topic: "t"}, time.Now()), "invalid body: "},
		"pushAt: due":            {pushAt(m, time.Time{}), "invalid due: "},
		"pushAt: far due":        {pushAt(m, time.Now().Add(client.MaxDelay+time.Hour)), "invalid due: "},
		"pushAt: lifetime":       {pushAt(m, time.Now(), client.ReadyMaxLifetime(0)), "invalid ready max lifetime: "},
		"pop: topic":             {popped(c.Pop(ctx, "")), "invalid topic: "},
		"bpop: topic":            {popped(c.BPop(ctx, 0, "")), "invalid topic: "},
		"bpop: one of topics":    {popped(c.BPop(ctx, 0, "t", "u", "")), "invalid topic: "},
		"bpop: timeout":          {popped(c.BPop(ctx, -1, "t")), "invalid timeout: "},
		"get: id":                {popped(c.Get(ctx, "")), "invalid id: "},
		"remove: id":             {popped(c.Remove(ctx, "")), "invalid id: "},
		"reschedule: id":         {c.Reschedule(ctx, "", 1), "invalid id: "},
		"reschedule: delay":      {c.Reschedule(ctx, "a", -1), "invalid delay: "},
		"reschedule: long delay": {c.Reschedule(ctx, "a", client.MaxDelay+1), "invalid delay: "},
	} {
		operation, _, _ := strings.Cut(name, ":")
		if !errors.Is(tt.err, client.ErrInvalid) {
			t.Errorf("%s: error %v, want ErrInvalid", name, tt.err)
		} else if text := tt.err.Error(); !strings.Contains(text, tt.names) || !strings.HasPrefix(text, "delayer: "+strings.ToLower(strings.TrimSuffix(operation, "At"))) {
			t.Errorf("%s: error %q, want one with the operation in front and %q", name, text, tt.names)
		}
	}
}

// A context that is done before the call lets nothing be sent.
func TestContextDoneBefore(t *testing.T) {
	f := start(t)
	f.push("a", "t")
	scripts := f.info("commandstats", "cmdstat_evalsha:calls=")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for name, call := range calls(f.Client, ctx) {
		if err := call(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: error %v, want context.Canceled", name, err)
		}
	}
	if now := f.info("commandstats", "cmdstat_evalsha:calls="); now != scripts {
		t.Errorf("%d scripts were sent", now-scripts)
	}
	f.expect(state{Ready: queues{"t": {"a"}}, Buckets: buckets{"a": "t body"}})
}

// calls are all that a Client can be asked, with valid arguments.
func calls(c *client.Client, ctx context.Context) map[string]func() error {
	return map[string]func() error{
		"Push": func() error {
			_, err := c.Push(ctx, client.Message{ID: "a", Topic: "t", Body: "b"}, 0)
			return err
		},
		"PushAt": func() error {
			_, err := c.PushAt(ctx, client.Message{ID: "a", Topic: "t", Body: "b"}, time.Now())
			return err
		},
		"Pop":        func() error { _, err := c.Pop(ctx, "t"); return err },
		"BPop":       func() error { _, err := c.BPop(ctx, 0, "t"); return err },
		"Get":        func() error { _, err := c.Get(ctx, "a"); return err },
		"Remove":     func() error { _, err := c.Remove(ctx, "a"); return err },
		"Reschedule": func() error { return c.Reschedule(ctx, "a", time.Hour) },
	}
}
