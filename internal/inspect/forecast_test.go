package inspect

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func (f *fixture) forecast(bounds ...time.Duration) []Span {
	f.TB.Helper()
	found, err := f.Forecast(f.ctx, bounds)
	f.check(err)
	return found.Spans
}

func TestForecast(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.pushMany("t", "overdue", 3, -time.Hour, 0)
		f.pushMany("t", "soon", 5, 30*time.Second, 0)
		f.pushMany("t", "later", 7, 30*time.Minute, 0)
		f.pushMany("t", "never", 2, 100*time.Hour, 0)
		for i := range 4 {
			f.push("t", fmt.Sprint("r", i), 0)
			f.reserve("t", 30*time.Minute)
		}
		got := f.forecast(time.Minute, time.Hour, 24*time.Hour)
		want := []Span{{0, time.Minute, 5, false}, {time.Minute, time.Hour, 7, false}, {time.Hour, 24 * time.Hour, 0, false}}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%v, want %v", got, want)
		}
	})
}

// The end of a lease does not count as a due job, even if it is the only entry, or if the number of leases is unknown.
func TestForecastOfOneLease(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.pushMany("t", "w", 2, 20*time.Minute, 0)
		f.push("u", "r", 0)
		f.reserve("u", 30*time.Minute)
		want := fmt.Sprint([]Span{{0, time.Hour, 2, false}})
		if got := f.forecast(time.Hour); fmt.Sprint(got) != want {
			t.Errorf("%v, want %v", got, want)
		}
		f.Do("DEL", "delayer:reserved")
		f.text("reserved")
		if got := f.forecast(time.Hour); fmt.Sprint(got) != want {
			t.Errorf("with a broken count %v, want %v", got, want)
		}
		f.Do("DEL", "delayer:reserved") // as left by old clients
		if got, want := f.forecast(time.Hour), fmt.Sprint([]Span{{0, time.Hour, 3, false}}); fmt.Sprint(got) != want {
			t.Errorf("where none is known to be reserved %v, want %v", got, want)
		}
	})
}

// A span ends just before its bound, to the millisecond.
func TestForecastBounds(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		from := time.Now().Add(time.Minute)
		for _, ms := range []int{999, 1000, 1999, 2000} {
			f.Do("ZADD", "delayer:job_pool", score(time.UnixMilli(from.UnixMilli()+int64(ms))), ms)
		}
		_, counts, err := f.fleet.Stores[0].Forecast(f.ctx, from, []int64{0, 1000, 2000})
		f.check(err)
		if len(counts) != 2 || counts[0].Entries != 1 || counts[1].Entries != 2 {
			t.Errorf("%+v, want 1 and 2 entries", counts)
		}
		for _, bounds := range [][]time.Duration{{0}, {-1}, {time.Second, time.Second}, {2 * time.Second, time.Second}} {
			if _, err := f.Forecast(f.ctx, bounds); err == nil {
				t.Errorf("bounds %v: no error", bounds)
			}
		}
	})
}

// With many entries the number of leases is estimated, except where there can be none.
func TestForecastEstimates(t *testing.T) {
	t.Parallel()
	f, _ := onRedis(t)
	f.pushMany("t", "w", 3000, time.Minute, time.Millisecond)
	if got := f.forecast(time.Hour)[0]; got.Jobs != 3000 || got.Estimated {
		t.Errorf("none reserved: %+v, want 3000", got)
	}
	f.leases(1000, 60*time.Second, 3*time.Millisecond)
	f.pushMany("t", "far", 2000, 48*time.Hour, 0)
	got := f.forecast(time.Hour, 48*time.Hour-time.Minute, 49*time.Hour)
	if !got[0].Estimated || got[0].Jobs < 2700 || got[0].Jobs > 3300 {
		t.Errorf("1,000 of 4,000 are leases: %+v, want about 3000", got[0])
	}
	if got[1].Jobs != 0 || got[2].Jobs != 2000 || got[2].Estimated {
		t.Errorf("beyond the longest lease: %+v, want 0, 2000", got[1:])
	}
	// A small span is counted exactly, in several scripts.
	var bounds []time.Duration
	for i := range 400 {
		bounds = append(bounds, 30*time.Second+time.Duration(i+1)*100*time.Millisecond)
	}
	sum, estimated := 0, false
	for _, span := range f.forecast(bounds...) {
		sum, estimated = sum+span.Jobs, estimated || span.Estimated
	}
	if sum != 3000 || estimated {
		t.Errorf("in small spans %d, estimated %v, want 3000, false", sum, estimated)
	}
}

// leases puts n leases into the pool. Each ends one step after the previous one.
func (f *fixture) leases(n int, ends, step time.Duration) {
	at := time.Now().Add(ends)
	for i := range n {
		end := at.Add(time.Duration(i) * step)
		f.Do("HSET", fmt.Sprint("delayer:job_bucket:l", i), "topic", "t", "body", "b", "lease", "1 1 0")
		f.Do("ZADD", "delayer:job_pool", fmt.Sprintf("%s%03d", score(end), 1+i%999), fmt.Sprint("l", i))
	}
	f.Do("HINCRBY", "delayer:reserved", "t", n)
}

func (f *fixture) shares(sample int) Shares {
	f.TB.Helper()
	s, err := f.Shares(f.ctx, sample)
	f.check(err)
	return s
}

func TestShares(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		if s := f.shares(1000); s.Waiting != 0 || !s.Exact || len(s.Topics) != 0 {
			t.Errorf("of an empty pool: %+v", s)
		}
		f.pushMany("a", "a", 300, time.Minute, time.Second)
		f.pushMany("b", "b", 100, time.Minute, time.Second)
		f.pushMany("c\x00\xff", "c", 5, time.Hour, 0)
		f.leases(20, time.Minute, time.Second)
		f.Do("ZADD", "delayer:job_pool", "99999999999", "orphan")
		s := f.shares(1000)
		want := []Share{{"a", 300, 300}, {"b", 100, 100}, {"c\x00\xff", 5, 5}}
		if !s.Exact || s.Waiting != 406 || s.Sampled != 426 || !slices.Equal(s.Topics, want) {
			t.Errorf("%+v, want exactly %+v", s, want)
		}
		s = f.shares(200)
		if s.Exact || s.Sampled != 200 || len(s.Topics) < 2 || s.Topics[0].Topic != "a" {
			t.Fatalf("by a sample: %+v", s)
		}
		// Each bound is more than six standard deviations away.
		if a, b := s.Topics[0].Jobs, s.Topics[1].Jobs; a < 210 || a > 390 || b < 30 || b > 170 || s.Waiting < 370 || s.Waiting > 426 {
			t.Errorf("by a sample: %+v, want about 300, 100 of 406", s)
		}
	})
}

// The load of a topic is the number of jobs that are overdue, due within the given time, ready or
// reserved.
func TestLoad(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		load := func(topic string, within time.Duration) Load {
			t.Helper()
			l, err := f.Load(f.ctx, topic, within)
			f.check(err)
			return l
		}
		if l := load("a", time.Minute); l != (Load{}) {
			t.Errorf("of an empty pool: %+v", l)
		}
		began := time.Now()
		f.pushMany("a", "a", 300, time.Minute, time.Second)
		f.pushMany("b", "b", 100, time.Minute, time.Second)
		f.pushMany("a", "c", 5, time.Millisecond, 0)
		f.leases(20, time.Minute, time.Second)
		for within, want := range map[time.Duration]Load{
			59 * time.Second:  {Due: 5},
			110 * time.Second: {Due: 56},
			time.Hour:         {Due: 305},
		} {
			l := load("a", within)
			passed := int(time.Since(began).Seconds()) // a job more is due with each second
			if l.Due < want.Due-8 || l.Due > min(want.Due+passed, 305) || l.Ready != 0 || l.Estimated {
				t.Errorf("within %v: %+v, want %+v", within, l, want)
			}
		}
		f.pushMany("d", "d", 2000, time.Minute, 0)
		if l := load("d", time.Hour); !l.Estimated || l.Due < 1500 || l.Due > 2500 {
			t.Errorf("by a sample: %+v, want about 2000", l)
		}
	})
}

// Topics that alternate don't mislead the sample.
func TestSharesOfAlternatingTopics(t *testing.T) {
	t.Parallel()
	f, _ := onRedis(t)
	f.Do("EVAL", `for i = 1, 20000 do
		redis.call('HSET', 'delayer:job_bucket:' .. i, 'topic', 't' .. i % 10, 'body', 'b')
		redis.call('ZADD', 'delayer:job_pool', 9999999999 + i, i)
	end`, 0)
	s := f.shares(1000)
	if s.Waiting != 20000 || len(s.Topics) != 10 {
		t.Fatalf("%+v, want 20000 of 10 topics", s)
	}
	for _, share := range s.Topics {
		if share.Jobs < 800 || share.Jobs > 3200 {
			t.Errorf("%+v, want about 2000", share)
		}
	}
}
