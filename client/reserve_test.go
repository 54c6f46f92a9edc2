package client_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
)

// deliveryIDs returns the IDs of the reserved jobs.
func deliveryIDs(list []*client.Delivery) []string {
	ids := make([]string, len(list))
	for i, d := range list {
		ids[i] = d.ID
	}
	return ids
}

// leased checks that the delivery's deadline is about one lease from now, and not later than the lease's end by Redis's
// clock, which is this host's clock here.
func (f *fixture) leased(what string, d *client.Delivery, from float64, lease time.Duration) {
	f.TB.Helper()
	deadline, end := float64(d.Deadline().UnixMicro())/1e6, f.Due(d.ID)
	if deadline > end || deadline < from+lease.Seconds()-0.001 || end > f.Clock()+lease.Seconds()+0.001 {
		f.TB.Errorf("%s: deadline %f, lease ends at %f, began after %f, lease %v", what, deadline, end, from, lease)
	}
	if d.Lease() != lease {
		f.TB.Errorf("%s: lease %v, want %v", what, d.Lease(), lease)
	}
}

func TestDeadline(t *testing.T) {
	f := start(t)
	for _, c := range []struct {
		lease, want time.Duration
		ttr         []client.PushOption
	}{
		{0, 30 * time.Second, nil},
		{0, 5 * time.Minute, []client.PushOption{client.JobOptions{Lease: 5 * time.Minute}}},
		{time.Hour, time.Hour, []client.PushOption{client.JobOptions{Lease: 5 * time.Minute}}},
		{store.MaxLease, store.MaxLease, nil},
	} {
		var held []*client.Delivery
		for name, reserve := range map[string]func() ([]*client.Delivery, error){
			"Reserve": func() ([]*client.Delivery, error) {
				d, err := f.Reserve(t.Context(), c.lease, "t")
				return []*client.Delivery{d}, err
			},
			"Fetch": func() ([]*client.Delivery, error) {
				return f.Fetch(t.Context(), client.FetchOptions{Topics: fetchTopics("t"), Max: 1, Lease: c.lease})
			},
		} {
			from := f.Clock()
			f.push(name, "t", c.ttr...)
			list, err := reserve()
			check(t, err)
			f.leased(name, list[0], from, c.want)
			held = append(held, list...)
		}
		for _, lease := range []time.Duration{time.Hour, time.Minute, store.MaxLease, 1500 * time.Millisecond, 0} {
			want := cmp.Or(lease, 1500*time.Millisecond) // the earlier lease
			from := f.Clock()
			if lease != 0 {
				check(t, held[0].Extend(t.Context(), lease))
				f.leased("Extend", held[0], from, want)
			}
			check(t, errOf(f.ExtendBatch(t.Context(), held[1:], lease)))
			f.leased("ExtendBatch", held[1], from, want)
		}
	}
}

// A Fetch reserves jobs in order, each with an attempt and a lease of its own, and no more than about 1 MiB.
func TestFetchReserves(t *testing.T) {
	f := start(t, undivided)
	batch := jobs(0, 400, "t", 0)
	check(t, errOf(f.PushBatch(t.Context(), batch)))
	list, err := f.Fetch(t.Context(), clienttest.Ready("t", 250, time.Hour))
	if got := deliveryIDs(list); err != nil || !slices.Equal(got, idsOf(batch[:250])) {
		t.Errorf("reserved %q, %v", got, err)
	}
	for n, d := range list {
		if d.Attempt != 1 || d.Topic != "t" || d.Body != "b" || float64(d.Deadline().UnixMicro())/1e6 > f.Due(d.ID) {
			t.Fatalf("delivered %+v until %v", d, d.Deadline())
		}
		if n%50 == 49 { // each caller gets its own error
			check(t, d.Ack(t.Context()))
		}
	}
	list, err = f.Fetch(t.Context(), clienttest.Ready("t", 250, time.Hour))
	if got := deliveryIDs(list); err != nil || !slices.Equal(got, idsOf(batch[250:])) {
		t.Errorf("then %q, %v", got, err)
	}
	for n := range 4 {
		f.put(client.Message{ID: fmt.Sprint(n), Topic: "large", Body: strings.Repeat("x", 1<<20)}, 0)
	}
	for n := range 4 {
		list, err := f.Fetch(t.Context(), clienttest.Ready("large", 10, time.Hour))
		if got := deliveryIDs(list); err != nil || !slices.Equal(got, []string{fmt.Sprint(n)}) || len(list[0].Body) != 1<<20 {
			t.Errorf("of large ones %q, %v", got, err)
		}
	}
}

// Fetch reserves ready jobs in the order of its topics, up to the limit of each topic and of the call.
func TestFetch(t *testing.T) {
	f := start(t, undivided)
	type topics = []client.FetchTopic
	for _, c := range []struct {
		name   string
		topics topics
		max    int
		want   []string
	}{
		{"one", topics{{Topic: "t"}}, 1, []string{"t0"}},
		{"as many as there are", topics{{Topic: "t"}}, 250, []string{"t0", "t1", "t2"}},
		{"a topic's own limit", topics{{Topic: "t", Max: 2}}, 250, []string{"t0", "t1"}},
		{"its limit is above the other one", topics{{Topic: "t", Max: 9}}, 1, []string{"t0"}},
		{"two topics in this order", topics{{Topic: "u"}, {Topic: "t"}}, 5, []string{"u0", "u1", "u2", "t0", "t1"}},
		{"with limits", topics{{Topic: "none"}, {Topic: "t", Max: 1}, {Topic: "u", Max: 2}}, 250, []string{"t0", "u0", "u1"}},
		{"with limits, and fewer in all", topics{{Topic: "t", Max: 2}, {Topic: "u", Max: 2}}, 3, []string{"t0", "t1", "u0"}},
	} {
		f.Flush()
		for n := range 3 {
			f.push(fmt.Sprint("t", n), "t")
			f.push(fmt.Sprint("u", n), "u")
		}
		// A call that waits would not ask for a topic that was just found to be empty, before the Flush.
		list, err := f.Fetch(t.Context(), client.FetchOptions{Topics: c.topics, Max: c.max, NoWait: true})
		if got := deliveryIDs(list); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v, want %q", c.name, got, err, c.want)
		}
		if got := f.State().Reserved; len(got) != len(c.want) {
			t.Errorf("%s: reserved in Redis are %q", c.name, got)
		}
	}

	// A job that has used up the caller's attempts becomes a dead letter.
	f.Flush()
	f.push("a", "t")
	check(t, f.reserve("t").Retry(t.Context(), 0, nil))
	_, err := f.Fetch(t.Context(), client.FetchOptions{Topics: fetchTopics("t"), Max: 1, MaxAttempts: 1, NoWait: true})
	if expectErr(t, "Fetch", err, client.ErrEmpty); !slices.Equal(f.dead("t"), []string{"a"}) {
		t.Errorf("dead are %q", f.dead("t"))
	}
}

// One connection suffices for all calls, even for a loop over dead letters that requeues them.
func TestOneConnectionSuffices(t *testing.T) {
	f := start(t, undivided)
	c := f.openPool(client.PoolOptions{MaxActive: 1})
	const n = 150
	f.seedDead("t", n, 1)
	reserved := f.reserver(t.Context(), c, time.Minute, "t")
	ended := later(func() error {
		for d, err := range c.Dead(t.Context(), "t") {
			if err != nil {
				return err
			}
			if err := c.Requeue(t.Context(), d.ID); err != nil {
				return err
			}
		}
		list, err := c.Fetch(t.Context(), clienttest.Ready("t", n, time.Minute))
		if err != nil || len(list) != n-1 {
			return fmt.Errorf("reserved %d, %w", len(list), err)
		}
		if _, err := c.ExtendBatch(t.Context(), list, 0); err != nil {
			return err
		}
		return errOf(c.AckBatch(t.Context(), list))
	})
	r := arrival(t, reserved)
	check(t, r.err)
	check(t, arrival(t, ended))
	check(t, r.d.Ack(t.Context()))
	f.Expect(state{})
}

// A job whose producer and consumer set no limit has the default one; a consumer may say that it has none.
func TestDefaultMaxAttempts(t *testing.T) {
	fetch := func(o client.FetchOptions, topic client.FetchTopic) func(f *fixture) ([]*client.Delivery, error) {
		o.Max, topic.Topic = 1, "t"
		o.Topics = []client.FetchTopic{topic}
		return func(f *fixture) ([]*client.Delivery, error) { return f.Fetch(f.TB.Context(), o) }
	}
	none := client.FetchOptions{MaxAttempts: -1}
	for name, c := range map[string]struct {
		reserve func(f *fixture) ([]*client.Delivery, error)
		want    int
	}{
		"Reserve": {func(f *fixture) ([]*client.Delivery, error) { return []*client.Delivery{f.reserve("t")}, nil }, store.DefaultMaxAttempts},
		"ReserveBatch": {func(f *fixture) ([]*client.Delivery, error) {
			return f.Fetch(f.TB.Context(), clienttest.Ready("t", 1, 0))
		}, store.DefaultMaxAttempts},
		"Fetch":                   {fetch(client.FetchOptions{}, client.FetchTopic{}), store.DefaultMaxAttempts},
		"Fetch, no limit":         {fetch(none, client.FetchTopic{}), 0},
		"Fetch, none of a topic":  {fetch(client.FetchOptions{MaxAttempts: 3}, client.FetchTopic{MaxAttempts: -1}), 0},
		"Fetch, that of a topic":  {fetch(none, client.FetchTopic{MaxAttempts: 2}), 2},
		"Fetch, the call's limit": {fetch(client.FetchOptions{MaxAttempts: 3}, client.FetchTopic{}), 3},
	} {
		t.Run(name, func(t *testing.T) {
			f := start(t)
			f.push("a", "t")
			for n := 1; n <= store.DefaultMaxAttempts+1; n++ {
				list, err := c.reserve(f)
				check(t, err)
				if d := list[0]; d.Attempt != n || d.MaxAttempts != c.want {
					t.Fatalf("attempt %d of %d, want %d of %d", d.Attempt, d.MaxAttempts, n, c.want)
				}
				if err = list[0].Retry(t.Context(), 0, nil); n == c.want {
					expectErr(t, "the last attempt", err, client.ErrExhausted)
					return
				}
				check(t, err)
			}
		})
	}
}
