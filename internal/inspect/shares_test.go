package inspect

import (
	"slices"
	"testing"
	"time"
)

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
