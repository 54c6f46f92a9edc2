package fleet

import (
	"math"
	"slices"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

// The partitions' shares add up to the limit; with a tag the limit belongs to the tag's partition.
func TestShares(t *testing.T) {
	for _, c := range []struct {
		limit store.Limit
		of    int
	}{
		{store.Limit{Concurrency: 1}, 1}, {store.Limit{Concurrency: 10, Rate: 5, Burst: 3}, 4}, {store.Limit{Concurrency: 16}, 16}, {store.Limit{Rate: 0.5, Burst: 1}, 3},
		{store.Limit{Concurrency: 1, Rate: 7, Burst: 2, Tag: "one"}, 5}, {store.Limit{Rate: 1, Burst: 7}, 5}, {store.Limit{Rate: 1}, 3},
	} {
		concurrency, rate, burst, served := 0, 0.0, 0, 0
		for i := range c.of {
			s := Layout{Partitions: c.of}.share(i, c.limit)
			if s.Concurrency != 0 {
				served++
			}
			concurrency += max(s.Concurrency, 0)
			if s.Interval > 0 {
				rate += 1e6 / s.Interval
				burst += s.Burst
			}
			if s.Concurrency != 0 && (s.Burst < 1) != (c.limit.Burst == 0) {
				t.Errorf("%+v: the burst of partition %d is %d", c.limit, i, s.Burst)
			}
		}
		if want := max(c.limit.Burst, served); c.limit.Burst > 0 && burst != want {
			t.Errorf("%+v of %d partitions: %d begin at once, want %d", c.limit, c.of, burst, want)
		}
		if concurrency != c.limit.Concurrency || math.Abs(rate-c.limit.Rate) > 1e-9 {
			t.Errorf("%+v of %d partitions: %d at a time, %v a second", c.limit, c.of, concurrency, rate)
		}
		if want := c.of; c.limit.Tag == "" && served != want || c.limit.Tag != "" && (served != 1 || Layout{Partitions: c.of}.share(store.PartitionOf("{one}x", c.of), c.limit).Concurrency != 1) {
			t.Errorf("%+v: %d of %d partitions are served", c.limit, served, c.of)
		}
	}
}

// An old partition keeps its share, but gets none of an exact limit.
func TestSharesOfPreviousPartitions(t *testing.T) {
	l := store.Limit{Concurrency: 18, Rate: 4, Burst: 18}
	tagged := l
	tagged.Tag = "one"
	for _, c := range []struct {
		in    Layout
		place int
		want  store.Share
	}{
		{Layout{16, 1}, 16, store.Share{Concurrency: 18, Interval: 250000, Burst: 18}},
		{Layout{1, 4}, 1, store.Share{Concurrency: 5, Interval: 1e6, Burst: 5}},
		{Layout{1, 4}, 4, store.Share{Concurrency: 4, Interval: 1e6, Burst: 4}},
		{Layout{4, 16}, 4, store.Share{Concurrency: 1, Interval: 4e6, Burst: 1}},
	} {
		if got := c.in.share(c.place, l); got != c.want {
			t.Errorf("place %d in %v has %+v, want %+v", c.place, c.in, got, c.want)
		}
		if got := c.in.share(c.place, tagged); got != (store.Share{}) {
			t.Errorf("place %d in %v has %+v of a limit that is exact", c.place, c.in, got)
		}
	}
}

// A limit with a tag excludes all partitions but the tag's. During a migration it also admits the tag's old partition,
// and partitions to be emptied.
func TestExcluded(t *testing.T) {
	for _, c := range []struct {
		in   Layout
		want []int
	}{
		{Layout{Partitions: 1}, nil},
		{Layout{Partitions: 4}, []int{0, 1, 2}},    // {x} belongs to partition 3
		{Layout{4, 1}, []int{0, 1, 2}},             // the fifth partition is being emptied
		{Layout{4, 5}, []int{0, 1, 2}},             // in partition 4 before
		{Layout{5, 4}, []int{0, 1, 2}},             // in partition 4, and in partition 3 before
		{Layout{Partitions: 5}, []int{0, 1, 2, 3}}, // in partition 4
		{Layout{1, 4}, nil},
	} {
		var got []int
		for i := range c.in.Open(new(redis.Pool), store.DefaultPrefix).Stores {
			if c.in.excludes(i, store.Limit{Concurrency: 1}) {
				t.Errorf("partition %d of %v is excluded without a tag", i, c.in)
			}
			if c.in.excludes(i, store.Limit{Concurrency: 1, Tag: "x"}) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("of %v %d are excluded, want %d", c.in, got, c.want)
		}
	}
}

// Limits follow the jobs to new partitions, which get their shares. Old partitions keep theirs unless the limit is
// exact.
func TestLimitsOfGrowingPartitions(t *testing.T) {
	b, server := onRedis(t)
	ctx := t.Context()
	one := Layout{Partitions: 1}.Open(server.Pool(), store.DefaultPrefix)
	check(t, one.SetLimit(ctx, "t", store.Limit{Concurrency: 5, Rate: 30, Burst: 1}))
	check(t, one.SetLimit(ctx, "tagged", store.Limit{Concurrency: 1, Tag: "x"}))
	all := Layout{Partitions: 2, Previous: 1}.Open(server.Pool(), store.DefaultPrefix)
	for range 2 { // the second time changes nothing
		check(t, all.CopyLimits(ctx))
	}
	home := store.PartitionOf("{x}", 2)
	for i, want := range []string{"3 66666.666666666672 1 0 0 5 30 1 ", "2 66666.666666666672 1 0 0 5 30 1 ", "5 33333.333333333336 1 0 0 5 30 1 "} {
		if got := b.do(t, "HGET", all.Stores[i].Keys().Limits(), "t"); string(got.([]byte)) != want {
			t.Errorf("partition %d has %q, want %q", i, got, want)
		}
		want := map[bool]string{true: "1 0 0 0 0 1 0 0 x", false: "0 0 0 0 0 1 0 0 x"}[i == home]
		if got := b.do(t, "HGET", all.Stores[i].Keys().Limits(), "tagged"); string(got.([]byte)) != want {
			t.Errorf("of the tagged topic partition %d has %q, want %q", i, got, want)
		}
	}
}
