package client_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

var limitTime = flag.Duration("limit.for", 0, "how long the tests of limits run that measure one: 3s if it is 0, or 1s in the short set; 60s is what docs/adr/0011-limits-and-pauses.md tells of")

func limitFor() time.Duration {
	return cmp.Or(*limitTime, time.Duration(redistest.Rounds(1, 3))*time.Second)
}

func TestLimit(t *testing.T) {
	f := start(t, undivided)
	ctx := t.Context()
	for _, wrong := range []client.Limit{
		{Concurrency: -1}, {Concurrency: 1_000_001}, {Rate: -1}, {Rate: 2e6}, {Rate: 1e-9}, {Burst: 1}, {Concurrency: 1, Burst: 1}, {Rate: 1, Burst: -1},
		{Tag: "a"}, {Concurrency: 1, Tag: "a}"},
	} {
		expectErr(t, fmt.Sprintf("SetLimit of %+v", wrong), f.SetLimit(ctx, "t", wrong), client.ErrInvalid)
	}
	expectErr(t, "SetLimit of no topic", f.SetLimit(ctx, "", client.Limit{Concurrency: 1}), client.ErrInvalid)
	check(t, f.SetLimit(ctx, "t", client.Limit{Concurrency: 1, Rate: 1000}))
	want := client.Limit{Concurrency: 1, Rate: 1000}
	if _, of := f.stats("t"); of.Limit != want {
		t.Errorf("before the first job: %+v, want %+v", of, want)
	}
	for _, id := range []string{"a", "b", "c"} {
		check(t, errOf(f.Push(ctx, message(id), 0)))
	}
	d := f.reserve("t")
	if _, err := f.Fetch(ctx, clienttest.Ready("t", 10, time.Hour)); !errors.Is(err, client.ErrEmpty) {
		t.Errorf("a batch beyond the limit: %v", err)
	}
	s, err := f.Stats(ctx)
	check(t, err)
	if got := s.Topics[0]; got != (client.TopicStats{Topic: "t", Ready: 2, Reserved: 1, Limit: want, Throttled: 2, Slots: 1}) {
		t.Errorf("Stats = %+v", got)
	}
	next := background(func() (client.Message, error) {
		d, err := f.Reserve(ctx, time.Hour, "t")
		if err != nil {
			return client.Message{}, err
		}
		return d.Message, nil
	})
	check(t, d.Ack(ctx))
	expectJob(t, next, "b")
	check(t, f.SetLimit(ctx, "t", client.Limit{}))
	f.reserve("t")
	if _, of := f.stats("t"); of.Limit != (client.Limit{}) {
		t.Errorf("without one: %+v", of)
	}
	check(t, f.SetLimit(ctx, "t", client.Limit{Rate: 1.0 / 3600}))
	for _, id := range []string{"d", "e"} {
		check(t, errOf(f.Push(ctx, message(id), 0)))
	}
	f.reserve("t")
	s, err = f.Stats(ctx)
	check(t, err)
	if got := s.Topics[0]; got.Throttled != 1 || got.Slots != 0 || got.ThrottledUntil.Before(time.Now().Add(time.Hour-time.Minute)) {
		t.Errorf("Stats of a slow rate = %+v", got)
	}
	check(t, f.SetLimit(ctx, "t", s.Topics[0].Limit))
	if _, again := f.stats("t"); again.Throttled != 1 || !again.ThrottledUntil.Equal(s.Topics[0].ThrottledUntil) {
		t.Errorf("Stats after the same limit was set again = %+v, want %+v", again, s.Topics[0])
	}
	for _, set := range []client.Limit{{Concurrency: 2}, {Concurrency: 2, Tag: "a"}, {Rate: 1, Burst: 2}} {
		check(t, f.SetLimit(ctx, "t", set))
		_, of := f.stats("t")
		if of.Limit != set || f.SetLimit(ctx, "t", of.Limit) != nil {
			t.Errorf("%+v is told as %+v, or can't be set as it is told", set, of.Limit)
		}
	}
}

// A caller that waits because of a limit is woken when the limit changes or ends.
func TestLimitIsChangedDuringAWait(t *testing.T) {
	slow := client.Limit{Rate: 1. / 3600}
	for name, change := range map[string][2]client.Limit{
		"a rate ends":                    {slow, {}},
		"a rate is raised":               {slow, {Rate: 1000}},
		"a rate becomes a number":        {slow, {Concurrency: 50}},
		"a number ends":                  {{Concurrency: 1}, {}},
		"a number is raised":             {{Concurrency: 1}, {Concurrency: 50}},
		"a number becomes a rate":        {{Concurrency: 1}, {Rate: 1000}},
		"the slow one of both is raised": {{Concurrency: 50, Rate: 1. / 3600}, {Concurrency: 50, Rate: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := start(t, undivided)
			ctx := t.Context()
			check(t, f.SetLimit(ctx, "t", change[0]))
			const consumers = 6
			for i := range 1 + 3*consumers {
				check(t, errOf(f.Push(ctx, message(fmt.Sprint(i)), 0)))
			}
			f.reserve("t")
			var wait sync.WaitGroup
			for i := range consumers {
				c := f.openPool(client.PoolOptions{})
				wait.Go(func() {
					for range 3 {
						if d, err := c.Reserve(ctx, time.Hour, "t"); err != nil {
							t.Errorf("consumer %d: %v", i, err)
						} else if err := d.Ack(ctx); err != nil {
							t.Error(err)
						}
					}
				})
			}
			until(t, "they are held back", func() bool { return f.Do("ZCARD", f.Prefix+"throttled_waiters:t") == int64(consumers) })
			check(t, f.SetLimit(ctx, "t", change[1]))
			wait.Wait()
		})
	}
}

// atOnce counts the leases that are held at a time.
type atOnce struct {
	mu        sync.Mutex
	until     map[string]time.Time // ends of the leases, by holder and job
	most, all int
}

// begins records a holder until ends, or until its lease ends by Redis's clock.
func (a *atOnce) begins(key string, ends time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for k, end := range a.until {
		if !end.After(now) {
			delete(a.until, k)
		}
	}
	if ends.After(now) { // a slow or repeated call may bring a job whose lease is over
		a.until[key] = ends
	}
	a.most, a.all = max(a.most, len(a.until)), a.all+1
}

func (a *atOnce) ends(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.until, key)
}

// A rate is exact to one percent, for any number of processes (each has a Client).
func TestLimitOfTheRate(t *testing.T) {
	t.Parallel()
	f := start(t, alone)
	const rate, processes = 100, 8
	jobs := make([]client.Item, 1000)
	for i := range jobs {
		jobs[i] = client.Item{Message: client.Message{Topic: "t", Body: "b"}}
	}
	for pushed := 0; pushed < int(limitFor().Seconds()*rate*12/10)+1000; pushed += len(jobs) {
		check(t, errOf(f.PushBatch(t.Context(), jobs)))
	}
	check(t, f.SetLimit(t.Context(), "t", client.Limit{Rate: rate}))
	ctx, cancel := context.WithTimeout(t.Context(), limitFor())
	defer cancel()
	var begun atomic.Int64
	var wait sync.WaitGroup
	began := time.Now()
	for range processes {
		c := f.as("consumer", "~* &* +@all")
		for range 4 {
			wait.Go(func() {
				for {
					d, err := c.Reserve(ctx, time.Minute, "t")
					if err != nil {
						return
					}
					begun.Add(1)
					d.Ack(ctx)
				}
			})
		}
	}
	wait.Wait()
	seconds, n := time.Since(began).Seconds(), float64(begun.Load())
	if most := rate*(seconds+0.25) + 1; n > most {
		t.Errorf("%v began in %.2f s, want %.0f at most", n, seconds, most)
	}
	if least := rate * limitFor().Seconds() * 0.99; limitFor() >= time.Minute && n < least {
		t.Errorf("%v began in %.2f s, want %.0f at least", n, seconds, least)
	}
	t.Logf("%v began in %.2f s", n, seconds)
}

// Each of several partitions has a share of the limit, and together they never exceed it. With a tag the limit is
// exact.
func TestLimitOfPartitions(t *testing.T) {
	const partitions = 4
	f := inPartitions(t, partitions)
	ctx := t.Context()
	expectErr(t, "fewer than there are partitions", f.SetLimit(ctx, "t", client.Limit{Concurrency: 3}), client.ErrInvalid)
	check(t, f.SetLimit(ctx, "t", client.Limit{Concurrency: 6}))
	check(t, f.SetLimit(ctx, "tagged", client.Limit{Concurrency: 3, Tag: "x"}))
	for i := range 40 {
		check(t, errOf(f.Push(ctx, client.Message{ID: fmt.Sprint(i), Topic: "t", Body: "b"}, 0)))
		check(t, errOf(f.Push(ctx, client.Message{ID: fmt.Sprintf("{x}%d", i), Topic: "tagged", Body: "b"}, 0)))
	}
	check(t, errOf(f.Push(ctx, client.Message{ID: "stray", Topic: "tagged", Body: "b"}, 0)))
	for topic, want := range map[string]int{"t": 6, "tagged": 3} {
		list := clienttest.All(t, f.Client, clienttest.Ready(topic, 40, time.Hour))
		if len(list) != want {
			t.Errorf("of %s %d jobs are reserved, want %d", topic, len(list), want)
		}
		of := map[int]int{}
		for _, d := range list {
			of[store.PartitionOf(d.ID, partitions)]++
		}
		if topic == "t" && len(of) != partitions {
			t.Errorf("the partitions' jobs are %v", of)
		}
		check(t, errOf(f.AckBatch(ctx, list)))
		if list = clienttest.All(t, f.Client, clienttest.Ready(topic, 40, time.Hour)); len(list) != want {
			t.Errorf("of %s again %d", topic, len(list))
		}
	}
	s, err := f.Stats(ctx)
	check(t, err)
	for _, topic := range s.Topics {
		if topic.Limit.Concurrency != map[string]int{"t": 6, "tagged": 3}[topic.Topic] || topic.Throttled+topic.Untagged != topic.Ready || topic.Ready == 0 {
			t.Errorf("%+v", topic)
		}
	}
}

// Jobs without the tag of their topic's limit cannot be reserved, and are counted apart from throttled jobs. A limit
// without a tag makes them reservable.
func TestUntagged(t *testing.T) {
	const partitions, jobs = 16, 60
	f := inPartitions(t, partitions)
	ctx := t.Context()
	check(t, f.SetLimit(ctx, "t", client.Limit{Concurrency: 16, Tag: "vip"}))
	elsewhere := 0
	for i := range jobs {
		pushed, err := f.Push(ctx, client.Message{ID: fmt.Sprint(i), Topic: "t", Body: "b"}, 0)
		check(t, err)
		if store.PartitionOf(pushed.ID, partitions) != store.PartitionOf("{vip}", partitions) {
			elsewhere++
		}
	}
	expect := func(after string, untagged int) {
		t.Helper()
		if _, got := f.stats("t"); got.Ready != untagged || got.Untagged != untagged || got.Throttled != 0 || got.Slots != 0 {
			t.Errorf("%s: %+v, want %d untagged, none held back", after, got, untagged)
		}
	}
	list := clienttest.All(t, f.Client, clienttest.Ready("t", jobs, time.Hour))
	if len(list) != jobs-elsewhere || elsewhere < jobs/2 {
		t.Errorf("%d jobs are reserved, and %d of %d are elsewhere", len(list), elsewhere, jobs)
	}
	check(t, errOf(f.AckBatch(ctx, list)))
	expect("what the limit lets through is", elsewhere)
	check(t, f.Pause(ctx, "t", client.PauseOptions{}))
	expect("paused", elsewhere)
	check(t, errOf(f.Resume(ctx, "t")))
	check(t, f.SetLimit(ctx, "t", client.Limit{Concurrency: jobs * partitions}))
	list = clienttest.All(t, f.Client, clienttest.Ready("t", jobs, time.Hour))
	if len(list) != elsewhere {
		t.Errorf("%d jobs are reserved without a tag, want %d", len(list), elsewhere)
	}
	check(t, errOf(f.AckBatch(ctx, list)))
	expect("without a tag", 0)
}
