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
			s := open(new(redis.Pool), c.of).share(i, c.limit)
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
		if want := c.of; c.limit.Tag == "" && served != want || c.limit.Tag != "" && (served != 1 || open(new(redis.Pool), c.of).share(store.PartitionOf("{one}x", c.of), c.limit).Concurrency != 1) {
			t.Errorf("%+v: %d of %d partitions are served", c.limit, served, c.of)
		}
	}
}

// A limit with a tag excludes all partitions but the tag's.
func TestExcluded(t *testing.T) {
	for _, c := range []struct {
		of   int
		want []int
	}{
		{1, nil},
		{4, []int{0, 1, 2}},    // {x} belongs to partition 3
		{5, []int{0, 1, 2, 3}}, // in partition 4
	} {
		var got []int
		f := open(new(redis.Pool), c.of)
		for i := range f.Stores {
			if f.excludes(i, store.Limit{Concurrency: 1}) {
				t.Errorf("partition %d of %d is excluded without a tag", i, c.of)
			}
			if f.excludes(i, store.Limit{Concurrency: 1, Tag: "x"}) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("of %d %d are excluded, want %d", c.of, got, c.want)
		}
	}
}
