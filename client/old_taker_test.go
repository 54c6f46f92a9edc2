package client_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// reserveNew pushes a job and reserves it.
func (f *fixture) reserveNew(id, topic string) *client.Delivery {
	f.t.Helper()
	f.push(id, topic)
	list, err := f.ReserveBatch(f.t.Context(), topic, 1, time.Hour)
	check(f.t, err)
	return list[0]
}

// An old client that takes a reserved job, by a second entry of its queue, leaves nothing
// that could be given back.
func TestReservedJobTakenByAnOldClient(t *testing.T) {
	for name, settle := range map[string]func(*client.Delivery, context.Context) error{
		"Retry":    func(d *client.Delivery, ctx context.Context) error { return d.Retry(ctx, 0) },
		"Release":  (*client.Delivery).Release,
		"Postpone": func(d *client.Delivery, ctx context.Context) error { return d.Postpone(ctx, time.Hour) },
		"Bury":     func(d *client.Delivery, ctx context.Context) error { return d.Bury(ctx, "why") },
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			d := f.reserveNew("a", "t")
			f.do("LPUSH", "delayer:ready_queue:t", "a")
			if m, err := f.oldClient().pop("t"); err != nil || m.ID != "a" {
				t.Fatalf("old pop = %v, %v", m, err)
			}
			if err := settle(d, t.Context()); !errors.Is(err, client.ErrLeaseLost) {
				t.Errorf("error %v, want ErrLeaseLost", err)
			}
			f.expect(state{Reserved: []string{"a"}, Counts: buckets{"t": "1"}})
		})
	}
}
