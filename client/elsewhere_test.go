package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// A program that has the topic, ID and token of a reserved job can make all calls of its consumer, through another
// Client, also after an extension.
func TestDeliveryOfElsewhere(t *testing.T) {
	f := start(t)
	for name, call := range verbs {
		for _, extended := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				f := f.with(t)
				f.seed()
				f.push("a", "t")
				d := f.reserve("t")
				if extended {
					if err := d.Extend(t.Context(), time.Hour); err != nil {
						t.Fatal(err)
					}
				}
				c := f.open()
				elsewhere := c.Delivery("t", "a", d.Token)
				if !elsewhere.Deadline().IsZero() || elsewhere.Lease() != 0 {
					t.Errorf("deadline %v, lease %v, want none", elsewhere.Deadline(), elsewhere.Lease())
				}
				if err := call(t.Context(), elsewhere); err != nil {
					t.Fatal(err)
				}
				if name == "Extend" {
					if end := f.Due("a"); elsewhere.Lease() != time.Hour || float64(elsewhere.Deadline().UnixMicro())/1e6 > end {
						t.Errorf("lease %v, deadline %v, but it ends at %f", elsewhere.Lease(), elsewhere.Deadline(), end)
					}
					return
				}
				if got := f.State(); len(got.Reserved) != 0 || got.Counts["t"] != "" && got.Counts["t"] != "0" {
					t.Errorf("still reserved: %+v", got)
				}
				if err := d.Ack(t.Context()); !errors.Is(err, client.ErrLeaseLost) {
					t.Errorf("Ack of the one that reserved it: %v, want ErrLeaseLost", err)
				}
			})
		}
	}
}

// A delivery with a wrong topic, ID or token changes nothing.
func TestDeliveryOfAnother(t *testing.T) {
	f := start(t)
	f.push("b", "u")
	other := f.reserve("u")
	f.push("a", "t")
	d := f.reserve("t")
	before, due := f.State(), f.Due("a")
	for what, wrong := range map[string]*client.Delivery{
		"topic":          f.Delivery("u", "a", d.Token),
		"no topic":       f.Delivery("", "a", d.Token),
		"ID":             f.Delivery("t", "b", d.Token),
		"no ID":          f.Delivery("t", "", d.Token),
		"unknown ID":     f.Delivery("t", "c", d.Token),
		"token":          f.Delivery("t", "a", d.Token+1),
		"another's":      f.Delivery("t", "a", other.Token),
		"no token":       f.Delivery("t", "a", 0),
		"negative token": f.Delivery("t", "a", -d.Token),
	} {
		for name, call := range verbs {
			if err := call(t.Context(), wrong); !errors.Is(err, client.ErrLeaseLost) {
				t.Errorf("%s with another %s: %v, want ErrLeaseLost", name, what, err)
			}
		}
		f.Expect(before)
		if now := f.Due("a"); now != due {
			t.Errorf("%s: due at %f, was %f", what, now, due)
		}
	}
}
