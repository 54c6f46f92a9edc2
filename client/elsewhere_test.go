package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

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

// A program that has the topic, ID and token of a reserved job can settle it through another Client. TestModel and
// TestTwoSettlementsOfOneJob make the other calls.
func TestDeliveryOfElsewhere(t *testing.T) {
	f := start(t)
	c := f.open()
	var list []*client.Delivery
	for _, d := range f.reserveAll(f.Client, 3) {
		list = append(list, c.Delivery(d.Topic, d.ID, d.Token))
	}
	if d := list[0]; !d.Deadline().IsZero() || d.Lease() != 0 {
		t.Errorf("deadline %v, lease %v, want none", d.Deadline(), d.Lease())
	}
	list[1] = c.Delivery("u", list[1].ID, list[1].Token)
	from := f.Clock()
	results, err := c.ExtendBatch(t.Context(), list, 2*time.Hour)
	expectErr(t, "ExtendBatch", err, client.ErrLeaseLost)
	expectErrs(t, results, nil, client.ErrLeaseLost, nil)
	f.leased("extended", list[0], from, 2*time.Hour)
	results, err = c.AckBatch(t.Context(), list)
	expectErr(t, "AckBatch", err, client.ErrLeaseLost)
	expectErrs(t, results, nil, client.ErrLeaseLost, nil)
	if got := f.State(); len(got.Reserved) != 1 || got.Counts["t"] != "1" {
		t.Errorf("left: %+v", got)
	}
}
