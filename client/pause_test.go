package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
)

// Callers that wait for a paused topic are served when it is resumed, with one partition or several.
func TestPause(t *testing.T) {
	for _, partitions := range []int{1, 5} {
		t.Run(fmt.Sprint(partitions), func(t *testing.T) {
			t.Parallel()
			f := inPartitions(t, partitions)
			ctx := t.Context()
			early := f.waiter(ctx, f.openPool(client.PoolOptions{Partitions: partitions}), "t")
			check(t, f.Pause(ctx, "t", client.PauseOptions{For: time.Hour, Note: "why"}))
			late := f.openPool(client.PoolOptions{Partitions: partitions})
			other := background(func() (client.Message, error) { return late.BPop(ctx, hangBound, "t") })
			for _, id := range []string{"a", "b"} {
				check(t, errOf(f.Push(ctx, client.Message{ID: id, Topic: "t", Body: "b"}, 0)))
				job, err := f.Get(ctx, id)
				if check(t, err); job.State != client.StateReady {
					t.Errorf("%s is %s", id, job.State)
				}
			}
			_, err := f.Fetch(ctx, clienttest.Ready("t", 10, time.Minute))
			expectErr(t, "reserve", err, client.ErrEmpty)
			all, err := f.Paused(ctx)
			check(t, err)
			if len(all) != 1 || all[0].Topic != "t" || all[0].Note != "why" || all[0].End().Sub(all[0].Since) < time.Hour || !all[0].ThrottledUntil.IsZero() {
				t.Errorf("paused are %+v", all)
			}
			if len(early) > 0 || len(other) > 0 {
				t.Error("one was served")
			}
			was, err := f.Resume(ctx, "t")
			if check(t, err); !was {
				t.Error("it was not paused")
			}
			ids := []string{(<-early).m.ID, (<-other).m.ID}
			if slices.Sort(ids); !slices.Equal(ids, []string{"a", "b"}) {
				t.Errorf("got %q", ids)
			}
			was, err = f.Resume(ctx, "t")
			if check(t, err); was {
				t.Error("it was paused still")
			}
		})
	}
}

// While a server moves jobs, and new and old consumers wait for them, no job is taken between the replies to Pause and
// Resume. In the end each job is delivered once.
func TestPauseWhileJobsFlow(t *testing.T) {
	t.Parallel()
	f := start(t, undivided)
	f.serve()
	ctx, stop := context.WithCancel(t.Context())
	var taken tally
	var consumers sync.WaitGroup
	for range 3 {
		for _, consume := range []func(context.Context, *tally){f.popAll, f.reserveAndAck, f.popAsBefore} {
			consumers.Go(func() { consume(ctx, &taken) })
		}
	}
	pushed := 0
	push := func(n int) {
		t.Helper()
		for range n {
			pushed++
			check(t, errOf(f.Push(t.Context(), client.Message{ID: fmt.Sprint(pushed), Topic: "t", Body: "b"}, time.Duration(pushed%5)*time.Millisecond)))
		}
	}
	keys := store.New(nil, f.Prefix).Keys()
	stored := func() (n int64) { // entries of jobs that no consumer has taken
		for _, c := range [][2]string{{"ZCARD", keys.JobPool()}, {"LLEN", keys.ReadyQueue("t")}, {"LLEN", keys.PausedQueue("t")}} {
			f.Conn().Send("MULTI")
			f.Conn().Send(c[0], c[1])
			replies, err := redis.Int64s(f.Conn().Do("EXEC"))
			check(t, err)
			n += replies[0]
		}
		return n
	}
	quiet := func() int64 { // all due jobs are moved, and reserved jobs are acknowledged
		t.Helper()
		until(t, "nothing is in the pool", func() bool { return f.Do("ZCARD", keys.JobPool()).(int64) == 0 })
		return stored()
	}
	for range 10 {
		push(20)
		check(t, f.Pause(t.Context(), "t", client.PauseOptions{}))
		before := quiet()
		push(20)
		if after := quiet(); after != before+20 {
			t.Errorf("of %d jobs, and 20 more, there are %d", before, after)
		}
		check(t, errOf(f.Resume(t.Context(), "t")))
	}
	until(t, "all have come", func() bool { return taken.total() == pushed })
	stop()
	consumers.Wait()
	for id, n := range taken.counts {
		if n != 1 {
			t.Errorf("job %s came %d times", id, n)
		}
	}
}

// popAll pops jobs of topic t until ctx ends.
func (f *fixture) popAll(ctx context.Context, taken *tally) {
	for c := f.open(); ctx.Err() == nil; {
		if m, err := c.BPop(ctx, time.Second, "t"); err == nil {
			taken.add(m.ID)
		}
	}
}

// reserveAndAck reserves jobs of topic t until ctx ends, and acknowledges them.
func (f *fixture) reserveAndAck(ctx context.Context, taken *tally) {
	for c := f.open(); ctx.Err() == nil; {
		if d, err := c.Reserve(ctx, time.Minute, "t"); err == nil {
			taken.add(d.ID)
			check(f.TB, d.Ack(f.TB.Context()))
		}
	}
}

// popAsBefore pops jobs of topic t as the original's clients do, until ctx ends.
func (f *fixture) popAsBefore(ctx context.Context, taken *tally) {
	conn := f.connect(f.reached(client.PoolOptions{}))
	defer conn.Close()
	for ctx.Err() == nil {
		if reply, err := redis.Strings(conn.Do("BRPOP", f.Prefix+"ready_queue:t", 1)); err == nil {
			conn.Do("DEL", f.Prefix+"job_bucket:"+reply[1])
			taken.add(reply[1])
		}
	}
}

func TestPauseInvalid(t *testing.T) {
	f := start(t)
	ctx := t.Context()
	for want, err := range map[string]error{
		`pause: invalid topic: it is empty`:                                                  f.Pause(ctx, "", client.PauseOptions{}),
		`invalid topic: it has 1025 bytes: want 1024 at most`:                                f.Pause(ctx, strings.Repeat("t", 1025), client.PauseOptions{}),
		`pause "t": invalid note: it has 1001 bytes: want 1000 at most`:                      f.Pause(ctx, "t", client.PauseOptions{Note: strings.Repeat("n", 1001)}),
		`pause "t": invalid time: -1s is not above 0 and up to`:                              f.Pause(ctx, "t", client.PauseOptions{For: -time.Second}),
		`invalid time: 30ns is less than a millisecond; in Go a number without a unit is in`: f.Pause(ctx, "t", client.PauseOptions{For: 30}),
		`throttle "t": invalid time: -1s is not above 0`:                                     f.Throttle(ctx, "t", -time.Second),
		`resume: invalid topic: it is empty`:                                                 errOf(f.Resume(ctx, "")),
	} {
		if !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	check(t, f.Throttle(ctx, "t", 0))
	check(t, f.Pause(ctx, "u", client.PauseOptions{Note: strings.Repeat("n", 1000)}))
	all, err := f.Paused(ctx)
	if check(t, err); len(all) != 1 || len(all[0].Note) != 1000 {
		t.Errorf("paused are %+v", all)
	}
}

// Of operators who pause a topic at the same time without replacing, one wins, in all partitions. A Throttle and a pause that is
// over do not count, nor does the same one again.
func TestUnlessPaused(t *testing.T) {
	t.Parallel()
	for _, partitions := range []int{1, 5} {
		f := inPartitions(t, partitions)
		ctx := t.Context()
		began := f.Clock()
		check(t, f.Pause(ctx, "t", client.PauseOptions{For: time.Millisecond}))
		until(t, "it is over", func() bool { return f.Clock() > began+0.1 })
		check(t, f.Throttle(ctx, "t", time.Hour))
		results := make(chan string)
		for n := range 8 {
			note := fmt.Sprint(n)
			go func() {
				err := f.Pause(ctx, "t", client.PauseOptions{Note: note, UnlessPaused: true})
				if errors.Is(err, client.ErrPaused) {
					note = ""
				} else if err != nil {
					note = err.Error()
				}
				results <- note
			}()
		}
		var won []string
		for range 8 {
			if note := <-results; note != "" {
				won = append(won, note)
			}
		}
		if len(won) != 1 {
			t.Fatalf("%d partitions: %q have won", partitions, won)
		}
		for i := range partitions {
			keys := store.KeysOf(f.Prefix)
			if partitions > 1 {
				keys = keys.Partition(i)
			}
			if entry := f.Do("HGET", keys.Paused(), "t"); !strings.HasSuffix(string(entry.([]byte)), " "+won[0]) {
				t.Errorf("partition %d of %d has %s, want %s", i, partitions, entry, won[0])
			}
		}
		check(t, f.Pause(ctx, "t", client.PauseOptions{Note: won[0], UnlessPaused: true}))
		expectErr(t, "another end", f.Pause(ctx, "t", client.PauseOptions{Note: won[0], For: time.Hour, UnlessPaused: true}), client.ErrPaused)
	}
}
