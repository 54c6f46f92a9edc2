package client_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// json.Unmarshal, and so worker.Handle, restores the value that a typed topic pushes.
func TestTopic(t *testing.T) {
	f := start(t)
	type order struct {
		ID    string
		Items map[string]int
		Due   *time.Time
	}
	due := time.Unix(1800000000, 0).UTC()
	const orders client.Topic[order] = "orders"
	values := []order{{}, {ID: "<1001> & \u2028 \"", Items: map[string]int{"鱼": 2}, Due: &due}}
	for _, want := range values {
		_, err := orders.Push(t.Context(), f.Client, want, 0, client.JobOptions{MaxAttempts: 3})
		check(t, err)
		d := f.reserve("orders")
		var got order
		if err := json.Unmarshal([]byte(d.Body), &got); err != nil || d.MaxAttempts != 3 {
			t.Fatalf("%q: %v, %d attempts", d.Body, err, d.MaxAttempts)
		}
		if got.ID != want.ID || got.Items["鱼"] != want.Items["鱼"] || (got.Due == nil) != (want.Due == nil) || got.Due != nil && !got.Due.Equal(*want.Due) {
			t.Errorf("got %+v of %q, want %+v", got, d.Body, want)
		}
	}
	pushed, err := orders.PushAt(t.Context(), f.Client, values[0], due, client.ID("order"), client.IfExists(client.Refuse()))
	check(t, err)
	if job, err := f.Get(t.Context(), pushed.ID); pushed.ID != "order" || err != nil || !job.Due.Equal(due) || job.Topic != "orders" || job.Body != `{"ID":"","Items":null,"Due":null}` {
		t.Errorf("pushed for a time: %+v, %v", job, err)
	}
}

// A value that cannot be encoded is ErrInvalid, like all arguments that Push refuses, and nothing is stored.
func TestTopicRefuses(t *testing.T) {
	f := start(t)
	const channels client.Topic[chan int] = "channels"
	_, encoded := channels.Message(nil)
	_, pushed := channels.Push(t.Context(), f.Client, nil, 0)
	_, pushedAt := channels.PushAt(t.Context(), f.Client, nil, time.Now())
	_, unnamed := client.Topic[int]("").Push(t.Context(), f.Client, 1, 0)
	_, delayed := client.Topic[int]("t").Push(t.Context(), f.Client, 1, 1)
	_, other := f.Push(t.Context(), client.Message{ID: "a", Topic: "t", Body: "b"}, 0, client.ID("b"))
	_, empty := client.Topic[int]("t").Push(t.Context(), f.Client, 1, 0, client.ID(""))
	_, nobody := client.Topic[int]("t").Push(t.Context(), nil, 1, 0)
	for name, err := range map[string]error{"Message": encoded, "Push": pushed, "PushAt": pushedAt, "no name": unnamed, "a delay": delayed, "no client": nobody, "two IDs": other, "an empty ID": empty} {
		if !errors.Is(err, client.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	expectText(t, "Push", pushed, "delayer: push: invalid body: it can't be encoded: ", "chan int")
	f.Expect(state{})
}
