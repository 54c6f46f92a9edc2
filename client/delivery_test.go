package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/pooltest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// verbs has all calls on a Delivery.
var verbs = map[string]func(ctx context.Context, d *client.Delivery) error{
	"Ack":           func(ctx context.Context, d *client.Delivery) error { return d.Ack(ctx) },
	"Retry":         func(ctx context.Context, d *client.Delivery) error { return d.Retry(ctx, time.Hour, nil) },
	"Release":       func(ctx context.Context, d *client.Delivery) error { return d.Release(ctx, 0) },
	"Release later": func(ctx context.Context, d *client.Delivery) error { return d.Release(ctx, time.Hour) },
	"Extend":        func(ctx context.Context, d *client.Delivery) error { return d.Extend(ctx, time.Hour) },
	"Bury":          func(ctx context.Context, d *client.Delivery) error { return d.Bury(ctx, errors.New("bad")) },
}

// Long texts are cut at a whole character.
func TestLongTexts(t *testing.T) {
	f := start(t)
	f.push("a", "t")
	long := "x" + strings.Repeat("ä", 8<<10) // so that the cut is amid a character
	check(t, f.reserve("t").Bury(t.Context(), errors.New(long)))
	job, err := f.Get(t.Context(), "a")
	for _, text := range []string{job.Error, job.Reason} {
		if err != nil || len(text) > 8<<10 || len(text) < 8<<10-10 || !strings.HasSuffix(text, "ä …") {
			t.Errorf("%d bytes, … %q, %v", len(text), text[max(len(text)-10, 0):], err)
		}
	}
}

// expectUnchanged checks that the calls change nothing, not even an expiry time.
func (f *fixture) expectUnchanged(calls func()) {
	f.TB.Helper()
	before, scores := f.State(), f.Scores()
	calls()
	f.Expect(before)
	if now := f.Scores(); !maps.Equal(now, scores) {
		f.TB.Errorf("the times are %v, were %v", now, scores)
	}
}

// A delivery is settled once. Later calls fail without a call to Redis, in any combination.
func TestSettledOnce(t *testing.T) {
	f := start(t, alone)
	for first, settle := range verbs {
		if first == "Extend" {
			continue
		}
		f.seed()
		f.push("a", "t")
		got, err := f.Fetch(t.Context(), client.FetchOptions{Topics: fetchTopics("t"), NoWait: true}) // after a wait, checks would run
		check(t, err)
		d := got[0]
		check(t, settle(t.Context(), d))
		scripts := f.Calls("evalsha")
		f.expectUnchanged(func() {
			for name, call := range verbs {
				expectErr(t, name+" after "+first, call(t.Context(), d), client.ErrLeaseLost)
			}
		})
		if n := f.Calls("evalsha") - scripts; n > 1 { // Extend's
			t.Errorf("%d scripts were run after %s", n, first)
		}
	}
}

// Only one of several concurrent calls settles the delivery.
func TestConcurrentSettlements(t *testing.T) {
	f := start(t)
	names := []string{"Ack", "Retry", "Ack", "Release", "Bury"}
	for range 100 {
		f.seed()
		f.push("a", "t")
		d := f.reserve("t")
		type outcome struct {
			name string
			err  error
		}
		ends := make(chan outcome, len(names))
		for _, name := range names {
			go func() { ends <- outcome{name, verbs[name](t.Context(), d)} }()
		}
		var won []string
		for range names {
			switch e := arrival(t, ends); {
			case e.err == nil:
				won = append(won, e.name)
			case !errors.Is(e.err, client.ErrLeaseLost):
				t.Fatal(e.err)
			}
		}
		got := f.State()
		places := map[string]int{"Retry": len(got.Pool), "Release": len(got.Ready["t"]), "Bury": len(got.Letters), "Ack": 1 - len(got.Buckets) - len(got.Letters)}
		if len(won) != 1 || places[won[0]] != 1 || len(got.Reserved) > 0 {
			t.Fatalf("%q won, state %+v", won, got)
		}
	}
}

// holder is a pool that delays the replies to calls that name a job.
type holder struct {
	*client.Redis
	*pooltest.Holder
}

func (f *fixture) holdJob(id string) holder {
	redistest.NotExternal(f.TB, "watches what its connections carry")
	h := pooltest.NewHolder()
	h.Hold("\r\n" + id + "\r\n")
	return holder{pooltest.Through(f.Server, 8, h.Wrap), h}
}

// settleLater starts a call in the background, and waits until its reply is delayed.
func (h holder) settleLater(call func() error) <-chan error {
	ended := later(call)
	<-h.Sent
	return ended
}

// reservedOnce loads the script of Reserve.
func (f *fixture) reservedOnce(topic string) { f.Fetch(f.TB.Context(), clienttest.Ready(topic, 1, 0)) }

// warm makes the call on another job, which loads its script.
func (f *fixture) warm(call func(ctx context.Context, d *client.Delivery) error) {
	f.TB.Helper()
	f.push("other", "warm")
	check(f.TB, call(f.TB.Context(), f.reserve("warm")))
	for range 2 { // one for the job, one for the dead letter
		check(f.TB, errOf(f.Remove(f.TB.Context(), "other")))
	}
}

// reserveAll makes the Client reserve n new jobs, 0000 and so on.
func (f *fixture) reserveAll(c *client.Client, n int) []*client.Delivery {
	f.TB.Helper()
	check(f.TB, errOf(f.PushBatch(f.TB.Context(), jobs(0, n, "t", 0))))
	list := clienttest.All(f.TB, c, clienttest.Ready("t", 250, time.Hour))
	if len(list) != n {
		f.TB.Fatalf("reserved %d of %d", len(list), n)
	}
	return list
}

// A call that is sent gets its reply even if its context is cancelled meanwhile.
func TestCancelledSettlements(t *testing.T) {
	f := start(t, alone, undivided)
	for name, call := range verbs {
		f.warm(call)
		c, _, sent := f.tapped()
		f.push(name, name)
		d := f.reserveBy(c, name, name, time.Hour)
		for len(sent) > 0 {
			<-sent
		}
		f.Hang()
		ctx, cancel := context.WithCancel(t.Context())
		ended := later(func() error { return call(ctx, d) })
		arrival(t, sent)
		cancel()
		f.Continue()
		expectErr(t, name, arrival(t, ended), nil)
	}
}

// Results come in the order of the deliveries, each with its own error.
func TestAckBatchAndExtendBatch(t *testing.T) {
	f := start(t, undivided)
	const n = 600
	list := f.reserveAll(f.Client, n)
	lost := map[int]bool{0: true, 249: true, 250: true, 599: true}
	for i := range lost {
		if err := f.Reschedule(t.Context(), list[i].ID, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	slices.Reverse(list)
	check := func(name string, results []client.Result, err error) {
		t.Helper()
		if !errors.Is(err, client.ErrLeaseLost) {
			t.Errorf("%s: %v, want ErrLeaseLost", name, err)
		}
		expectText(t, name, err, `delayer: `+name+`: 4 of 600 jobs: "0599": `)
		if len(results) != n {
			t.Fatalf("%s: %d results", name, len(results))
		}
		for i, r := range results {
			if r.ID != list[i].ID || errors.Is(r.Err, client.ErrLeaseLost) != lost[n-1-i] || !lost[n-1-i] && r.Err != nil {
				t.Errorf("%s: result %d is %+v", name, i, r)
			}
		}
	}
	results, err := f.ExtendBatch(t.Context(), list, 2*time.Hour)
	check("extend batch", results, err)
	for i, d := range list {
		if extended := d.Lease() == 2*time.Hour; extended == lost[n-1-i] {
			t.Errorf("%s: lease %v", d.ID, d.Lease())
		}
	}
	results, err = f.AckBatch(t.Context(), list)
	check("ack batch", results, err)
	if got := f.State(); len(got.Pool) != len(lost) || len(got.Buckets) != len(lost) || len(got.Reserved) > 0 {
		t.Errorf("left are %q, %q", got.Pool, got.Reserved)
	}
	results, err = f.AckBatch(t.Context(), nil)
	if len(results) != 0 || err != nil {
		t.Errorf("of none: %v, %v", results, err)
	}
}

// expectErrs checks the results of a batch.
func expectErrs(t testing.TB, results []client.Result, want ...error) {
	t.Helper()
	if len(results) != len(want) {
		t.Fatalf("%d results, want %d", len(results), len(want))
	}
	for i, r := range results {
		expectErr(t, fmt.Sprint(i, " ", r.ID), r.Err, want[i])
	}
}

// A network error in the second chunk does not change the first chunk's results. Settlements that were not done, or may
// not have been, can be repeated.
func TestAckBatchCutInTheSecondChunk(t *testing.T) {
	const n = 600
	f := start(t, undivided)
	f.reservedOnce("t")
	f.warm(verbs["Ack"])
	h := f.holdJob("0250") // the first one of the second chunk
	c := f.on(h.Redis)
	list := f.reserveAll(c, n)
	var results []client.Result
	ack := func() (err error) {
		results, err = c.AckBatch(t.Context(), list)
		return err
	}
	wants := func(first, second error) []error {
		return append(slices.Repeat([]error{first}, 250), slices.Repeat([]error{second}, n-250)...)
	}
	ended := h.settleLater(ack)
	h.Pass <- io.ErrUnexpectedEOF
	expectErr(t, "AckBatch", arrival(t, ended), io.ErrUnexpectedEOF)
	expectErrs(t, results, wants(nil, io.ErrUnexpectedEOF)...)
	if left := f.State(); len(left.Reserved) != 100 { // Redis did the second chunk
		t.Errorf("%d are reserved", len(left.Reserved))
	}
	ended = h.settleLater(ack)
	h.Pass <- nil
	arrival(t, ended)
	expectErrs(t, results, wants(client.ErrLeaseLost, nil)...)
	f.Expect(state{})
}

// Of two concurrent Extends, the one that Redis ran later counts, no matter which reply comes first.
func TestConcurrentExtends(t *testing.T) {
	f := start(t)
	f.reservedOnce("t")
	f.warm(verbs["Extend"])
	f.push("a", "t")
	h := f.holdJob("a")
	d := f.reserveBy(f.on(h.Redis), "t", "a", time.Minute)
	end := d.Deadline()
	ended := h.settleLater(func() error { return d.Extend(t.Context(), time.Hour) })
	until(t, "it is done in Redis", func() bool { return f.Due("a") > float64(end.Unix()+60) })
	from := f.Clock()
	check(t, errOf(f.ExtendBatch(t.Context(), []*client.Delivery{d}, 2*time.Minute)))
	h.Pass <- nil
	check(t, arrival(t, ended))
	f.leased("both", d, from, 2*time.Minute)
}

// A repeated Ack that was never sent before returns an error if another program has removed the job.
func TestAckThatWasNotSent(t *testing.T) {
	f := start(t)
	f.push("a", "t")
	d := f.reserve("t")
	expectErr(t, "Ack with its context done", d.Ack(done(t.Context())), context.Canceled)
	f.Remove(t.Context(), "a")
	expectErr(t, "Ack of a job that was removed", d.Ack(t.Context()), client.ErrLeaseLost)
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
