package server

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// counter counts what the hooks of a Server are told.
type counter struct {
	mu      sync.Mutex
	moved   map[string]Moved // by topic
	calls   int              // calls of Moved
	dropped int
	passes  int
	failed  []error
	fired   []Fired
	called  map[string]int
	took    time.Duration // the shortest pass
}

func newCounter() *counter {
	return &counter{moved: map[string]Moved{}, called: map[string]int{}, took: math.MaxInt64}
}

func (c *counter) hooks() Hooks {
	return Hooks{c.onMoved, c.onDropped, c.onPassed, c.onCalled, c.onFired}
}

func (c *counter) onMoved(topic string, m Moved) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.moved[topic]
	c.moved[topic] = Moved{was.Jobs + m.Jobs, was.Returned + m.Returned, was.Late.Plus(m.Late)}
	c.calls++
}

func (c *counter) onDropped(jobs int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dropped += jobs
}

func (c *counter) onPassed(took time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passes++
	if err != nil {
		c.failed = append(c.failed, err)
	}
	c.took = min(c.took, took)
}

func (c *counter) onCalled(script string, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.called[script]++
	c.took = min(c.took, took)
}

func (c *counter) onFired(one Fired) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fired = append(c.fired, one)
}

func (c *counter) passesSoFar() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.passes
}

// observed gives the world a Server with hooks that count.
func (w *world) observed() *counter {
	c := newCounter()
	o := w.options()
	o.Hooks = c.hooks()
	w.server = serverOn(w.pool(), 1, o)
	return c
}

// Hooks get all results of passes: jobs and leases by topic, their lateness, orphans, Redis's time, and failures.
func TestHooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.observed()
	now := w.Clock()
	due := func(late float64) string { return fmt.Sprintf("%.6f", math.Floor((now-late)*1000)/1000) }
	w.push("minutes", "t", due(130))
	w.push("lease", "t", fmt.Sprintf("%.6f", math.Floor(now-30)+0.0005))
	w.push("seconds", "u", due(30))
	w.push("not yet", "u", due(-3600))
	w.Do("ZADD", prefix+"job_pool", due(9), "orphan")
	check(t, w.server.Pass(t.Context()))
	if c.calls != 2 || c.moved["t"].Jobs != 2 || c.moved["t"].Returned != 1 || c.moved["u"].Jobs != 1 || c.moved["u"].Returned != 0 || c.dropped != 1 || c.passes != 1 || len(c.failed) > 0 {
		t.Errorf("told of %+v in %d calls, %d dropped, %d passes, %v", c.moved, c.calls, c.dropped, c.passes, c.failed)
	}
	late := c.moved["t"].Late
	if minute := 13; late.Counts[minute] != 1 || late.Counts[minute+1] != 1 || late.Jobs() != 2 || late.Sum < 160 || late.Sum > 160+hangs.Seconds() {
		t.Errorf("late %+v", late)
	}

	w.many(1000, 1)
	check(t, w.server.Pass(t.Context()))
	late = c.moved["topic0"].Late
	if late.Counts[len(LatenessBounds())] != 1000 || math.Abs(late.Sum/1000-now) > 2000 {
		t.Errorf("late %+v", late)
	}
	if c.called["due"] < 2 || c.called["move"] < 1 || c.took <= 0 {
		t.Errorf("told of calls %v, the shortest of %v", c.called, c.took)
	}

	w.Do("FLUSHALL")
	w.Do("SET", prefix+"job_pool", "text")
	err := w.server.Pass(t.Context())
	if len(c.failed) != 1 || err == nil || c.failed[0].Error() != err.Error() {
		t.Errorf("told of %v, want %v", c.failed, err)
	}
}

// Lateness counts until the move, so it includes the time since the read of due jobs.
func TestLatenessUntilTheMove(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.observed()
	const held = 150 * time.Millisecond
	w.onLook(func(int) {
		for began := w.Clock(); w.Clock() < began+held.Seconds(); {
		}
	})
	w.push("a", "t", dueNow(w))
	w.expectPass(1, 0)
	if late := c.moved["t"].Late; late.Sum < held.Seconds() || late.Counts[0]+late.Counts[1]+late.Counts[2] > 0 {
		t.Errorf("late %+v, want at least %v", late, held)
	}
}

// A pass that is repeated because a connection was cut counts as one.
func TestHooksOfACutConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.observed()
	w.push("a", "t", 1)
	check(t, w.server.Pass(context.Background()))
	w.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	check(t, w.server.Pass(context.Background()))
	if c.passes != 2 || len(c.failed) > 0 {
		t.Errorf("told of %d passes, %v", c.passes, c.failed)
	}
	w.Expect(redistest.State{Ready: queues{"t": {"a"}}, Buckets: buckets{"a": "t body"}})
}

// While no node of a cluster answers, each attempt to find the partitions counts as a failed pass.
func TestHooksOfAnUnreachableCluster(t *testing.T) {
	t.Parallel()
	dialer := redisconn.Dialer{ConnectTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second}
	cluster := redisconn.NewCluster([]string{"127.0.0.1:1"}, dialer, func(d redisconn.Dialer) *redis.Pool { return &redis.Pool{DialContext: d.Dial} })
	defer cluster.Close()
	c := newCounter()
	stop := redistest.Background(t, serverOn(cluster, 2, Options{Interval: 10 * time.Millisecond, Hooks: c.hooks()}).Run)
	redistest.Until(t, "it has failed twice", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.failed) > 1
	})
	stop()
	if c.passes != len(c.failed) {
		t.Errorf("%d passes, %d failed", c.passes, len(c.failed))
	}
}

// A Lateness has the same numbers as the one it was made from, and what a user does with it, or with the bounds, changes no other.
func TestLateness(t *testing.T) {
	inside := store.Lateness{Sum: 1.5}
	for i := range inside.Counts {
		inside.Counts[i] = int64(i + 1)
	}
	l := latenessOf(inside)
	twice := l.Plus(l)
	if l.Jobs() != inside.Jobs() || twice.inside() != inside.Plus(inside) || l.inside() != inside {
		t.Errorf("%d jobs, twice is %+v", l.Jobs(), twice)
	}
	none := Lateness{}
	if l.Quantile(0.3) != inside.Quantile(0.3) || none.Quantile(1) != 0 || none.Jobs() != 0 || none.Plus(l).inside() != inside {
		t.Error("a quantile or the zero value is wrong")
	}
	LatenessBounds()[0] = time.Hour
	if bounds := LatenessBounds(); bounds[0] != time.Millisecond || len(l.Counts) != len(bounds)+1 {
		t.Errorf("the bounds are %v", bounds)
	}
}
