package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Only the topic's ready jobs are deleted. Other IDs in its queue are only removed from the queue.
func TestPurge(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.ghosts(3)
		f.push("t", "taken", 0) // behind the ghosts
		f.reserve("t", time.Minute)
		f.Do("LPUSH", "delayer:ready_queue:t", "taken")
		for i := range 600 {
			f.ready(fmt.Sprint("r", i), time.Hour)
		}
		f.ready("waits", time.Hour)
		f.Do("ZADD", "delayer:job_pool", "99999999999", "waits")
		f.ready("stray", time.Hour)
		f.Do("HSET", "delayer:job_bucket:stray", "topic", "u")
		f.ready("r0", time.Hour) // a duplicate
		f.push("u", "other", 0)
		if n, err := f.Purge(f.ctx, "t", math.MaxInt); n != 600 || err != nil {
			t.Errorf("%d, %v, want 600", n, err)
		}
		f.Expect(redistest.State{
			Pool: []string{"waits"}, Reserved: []string{"taken"}, Counts: map[string]string{"t": "1"},
			Ready:   map[string][]string{"u": {"other", "stray"}},
			Buckets: map[string]string{"taken": "t body of taken", "waits": "t b", "stray": "u b", "other": "u body of other"},
		})
		if n, err := f.Purge(f.ctx, "t", math.MaxInt); n != 0 || err != nil {
			t.Errorf("of an empty queue: %d, %v", n, err)
		}
	})
}

// Entries count whether they have a job or not. The result also gives the number of jobs.
func TestPurgeCountsEntries(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		f.ghosts(1100) // more than one step
		for i := range 900 {
			f.ready(fmt.Sprint("r", i), time.Hour)
		}
		if n, err := f.Purge(f.ctx, "t", 1700); n != 600 || err != nil {
			t.Errorf("of 1,700 entries: %d jobs, %v, want 600", n, err)
		}
		if ids := f.ids(Query{Topic: "t", State: Ready}, nil); !slices.Equal(ids, names("r", 600, 900)) {
			t.Errorf("left are %.200q", ids)
		}
		for most, want := range map[int]int{0: 0, -1: 0} {
			if n, err := f.Purge(f.ctx, "t", most); n != want || err != nil {
				t.Errorf("of %d entries: %d jobs, %v", most, n, err)
			}
		}
	})
}

// Jobs that become ready between the steps stay, and the remaining steps still run.
func TestPurgeWhileJobsBecomeReady(t *testing.T) {
	onEach(t, func(t *testing.T, f *fixture) {
		for i := range 600 {
			f.ready(fmt.Sprint("r", i), time.Hour)
		}
		// The first step sends the script's text.
		o := f.before("purge", func() {
			for i := range 300 {
				f.ready(fmt.Sprint("new", i), time.Hour)
			}
		})
		if n, err := o.Purge(f.ctx, "t", math.MaxInt); n != 600 || err != nil {
			t.Errorf("%d jobs, %v, want 600", n, err)
		}
		if ids := f.ids(Query{Topic: "t", State: Ready}, nil); !slices.Equal(ids, names("new", 0, 300)) {
			t.Errorf("left are %.200q", ids)
		}
	})
}

// With several partitions a purge has a maximum of entries in total.
func TestPurgeOfPartitions(t *testing.T) {
	t.Parallel()
	f, _ := onRedis(t)
	pool := f.Pool()
	for _, prefix := range []string{"", "other:"} {
		c := clienttest.On(pool, client.WithPrefix(prefix))
		for range 5 {
			_, err := c.Push(f.ctx, client.Message{Topic: "t", Body: "b"}, 0)
			f.check(err)
		}
	}
	f.fleet.Stores = []*store.Store{store.New(pool, store.DefaultPrefix), store.New(pool, "other:")}
	f.ghosts(2) // in the first partition, behind its jobs
	for _, step := range []struct{ most, want, left int }{{8, 6, 4}, {3, 3, 1}, {7, 1, 0}} {
		if n, err := f.Purge(f.ctx, "t", step.most); n != step.want || err != nil {
			t.Errorf("of %d: %d jobs, %v, want %d", step.most, n, err, step.want)
		}
		if left := f.counts().of("t").Ready; left != step.left {
			t.Errorf("after %d: %d jobs are left, want %d", step.most, left, step.left)
		}
	}
}

// An error comes with the number of jobs deleted before it.
func TestPurgeFailsInTheMidst(t *testing.T) {
	t.Parallel()
	f, server := onRedis(t)
	for i := range 600 {
		f.ready(fmt.Sprint("r", i), time.Hour)
	}
	steps := 0
	pool := &redis.Pool{Dial: func() (redis.Conn, error) {
		if steps++; steps > 3 { // the layout, the length, and one step
			return nil, io.ErrUnexpectedEOF
		}
		return redis.Dial("tcp", server.Addr)
	}}
	t.Cleanup(func() { pool.Close() })
	if n, err := open(pool, 1).Purge(context.Background(), "t", math.MaxInt); n != 250 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%d jobs, %v, want 250 and the error", n, err)
	}
	if left := f.Do("LLEN", "delayer:ready_queue:t"); left != int64(350) {
		t.Errorf("%d jobs are left", left)
	}
}

func TestPurgeFails(t *testing.T) {
	t.Parallel()
	f, _ := onRedis(t)
	f.text("ready_queue:broken")
	if _, err := f.Purge(f.ctx, "broken", math.MaxInt); err == nil || !strings.Contains(err.Error(), "WRONGTYPE") || !strings.Contains(err.Error(), `purge of "broken"`) {
		t.Errorf("of a text: %v", err)
	}
	if _, err := f.Purge(f.ctx, "", math.MaxInt); err == nil {
		t.Error("of no topic: no error")
	}
}
