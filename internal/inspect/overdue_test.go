package inspect

import (
	"fmt"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// The overdue time of a job follows from its time to live.
func TestOverdue(t *testing.T) {
	const week = store.DefaultLifetime
	for _, c := range []struct {
		name string
		seed func(f *fixture)
		want time.Duration
		// least is the lower bound where the value is Unknown.
		least time.Duration
	}{
		{"nothing", func(f *fixture) {}, 0, 0},
		{"ready for an hour", func(f *fixture) { f.ready("a", week-time.Hour) }, time.Hour, 0},
		{"the lifetime that the job has", func(f *fixture) {
			f.ready("a", time.Minute)
			f.Do("HSET", "delayer:job_bucket:a", "options", fmt.Sprint("0 0 ", time.Hour.Milliseconds()))
		}, 59 * time.Minute, 0},
		{"kept for ever", func(f *fixture) { f.ready("a", 0) }, Unknown, 0},
		{"as many ghosts as are passed over", func(f *fixture) { f.ghosts(49); f.ready("a", week-time.Hour) }, time.Hour, 0},
		{"more ghosts than are passed over", func(f *fixture) { f.ghosts(50); f.ready("a", week-time.Hour) }, Unknown, time.Hour},
		{"some behind many ghosts", func(f *fixture) {
			f.ghosts(300)
			for i := range 300 {
				f.ready(fmt.Sprint(i), week-time.Hour+time.Duration(i)*time.Second)
			}
		}, Unknown, time.Hour - 300*time.Second},
		{"nothing but many ghosts", func(f *fixture) { f.ghosts(3000) }, Unknown, 0},
		{"a job that waits", func(f *fixture) {
			f.ready("a", week-time.Hour)
			f.Do("ZADD", "delayer:job_pool", "99999999999", "a")
		}, 0, 0},
		{"a job of another topic", func(f *fixture) {
			f.ready("a", week-time.Hour)
			f.Do("HSET", "delayer:job_bucket:a", "topic", "u")
		}, 0, 0},
		{"delivered before, long ago", func(f *fixture) { f.ready("a", week-time.Hour); f.leased("a", 2*time.Hour) }, time.Hour, 0},
		{"delivered before, just now", func(f *fixture) { f.ready("a", week-time.Hour); f.leased("a", time.Minute) }, time.Minute, 0},
		{"the queue is a text", func(f *fixture) { f.text("ready_queue:t") }, Unknown, Unknown},
		{"the bucket is a text", func(f *fixture) { f.ready("a", week); f.Do("SET", "delayer:job_bucket:a", "text") }, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, f *fixture) {
				f.Do("ZADD", "delayer:topics", 0, "t")
				c.seed(f)
				got := f.counts().of("t")
				if c.want <= 0 && got.Overdue != c.want || got.Overdue < c.want || got.Overdue > c.want+10*time.Second {
					t.Errorf("overdue %v, want %v", got.Overdue, c.want)
				}
				if c.want != Unknown {
					if got.AtLeast != got.Overdue {
						t.Errorf("overdue %v, but at least %v", got.Overdue, got.AtLeast)
					}
				} else if c.least <= 0 && got.AtLeast != c.least || got.AtLeast < c.least || got.AtLeast > time.Hour+10*time.Second {
					t.Errorf("overdue at least %v, want %v", got.AtLeast, c.least)
				}
			})
		})
	}
}

// ready puts a job with the given time to live into the queue of topic t.
func (f *fixture) ready(id string, ttl time.Duration) {
	f.Do("HSET", "delayer:job_bucket:"+id, "topic", "t", "body", "b")
	if ttl > 0 {
		f.Do("PEXPIRE", "delayer:job_bucket:"+id, ttl.Milliseconds())
	}
	f.Do("LPUSH", "delayer:ready_queue:t", id)
}

func (f *fixture) ghosts(n int) {
	for i := range n {
		f.Do("LPUSH", "delayer:ready_queue:t", fmt.Sprint("ghost", i))
	}
}

// leased changes the job's delivery time to that long ago.
func (f *fixture) leased(id string, ago time.Duration) {
	f.Do("HSET", "delayer:job_bucket:"+id, "lease", fmt.Sprintf("2 %d 0", time.Now().Add(-ago).UnixMicro()))
}

// A few ghosts are skipped one by one, many in steps, so that a read stays cheap.
func TestOverdueBehindGhostsOfManyTopics(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		var topics []string
		for i := range 10 {
			topic := fmt.Sprint(i)
			topics = append(topics, topic)
			f.Do("EVAL", `for i = 1, 49 do redis.call('LPUSH', KEYS[1], 'ghost' .. i) end redis.call('LPUSH', KEYS[1], 'job' .. ARGV[1])`, 1, "delayer:ready_queue:"+topic, i)
			f.Do("HSET", fmt.Sprint("delayer:job_bucket:job", i), "topic", topic)
			f.Do("PEXPIRE", fmt.Sprint("delayer:job_bucket:job", i), (store.DefaultLifetime - time.Hour).Milliseconds())
		}
		c, err := f.CountsOf(f.ctx, topics...)
		f.check(err)
		for i, topic := range c.Topics { // 200 are skipped: four times 49, and 4
			known := topic.Overdue >= time.Hour
			if known != (i < 4) || topic.AtLeast < time.Hour || topic.AtLeast > time.Hour+10*time.Second {
				t.Errorf("%s: overdue %v, at least %v", topic.Topic, topic.Overdue, topic.AtLeast)
			}
		}
	})
}

func TestOverdueCostsLittle(t *testing.T) {
	f, _ := onRedis(t)
	var topics []string
	for i := range 100 {
		topics = append(topics, fmt.Sprint(i))
		f.Do("EVAL", `for i = 1, 3000 do redis.call('LPUSH', KEYS[1], 'ghost' .. i) end`, 1, "delayer:ready_queue:"+topics[i])
	}
	f.Do("CONFIG", "RESETSTAT")
	_, err := f.CountsOf(f.ctx, topics...)
	f.check(err)
	if looks := f.Calls("lindex"); looks < 200 || looks > 200+100*8 {
		t.Errorf("%d looks at entries", looks)
	}
}

func TestOverdueInPool(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.push("t", "a", time.Hour)
		if got := f.counts().Overdue; got != 0 {
			t.Errorf("with a job that waits: %v", got)
		}
		f.Do("ZADD", "delayer:job_pool", score(time.Now().Add(-time.Hour)), "b")
		if got := f.counts().Overdue; got < time.Hour || got > time.Hour+time.Minute {
			t.Errorf("with a job that was due an hour ago: %v", got)
		}
		if f.Mini {
			return // its Lua cannot read these numbers
		}
		f.Do("ZADD", "delayer:job_pool", "-1e300", "c")
		if got, century := f.counts().Overdue, 100*365*24*time.Hour; got != century {
			t.Errorf("with a job that was due before all times: %v", got)
		}
		f.Do("DEL", "delayer:job_pool")
		f.Do("ZADD", "delayer:job_pool", "inf", "never")
		if got := f.counts().Overdue; got != 0 {
			t.Errorf("with a job that is never due: %v", got)
		}
	})
}
