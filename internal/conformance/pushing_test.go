package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/server"
)

var pushing = []line{
	{"a job without a delay is ready at once", func(s *stage) {
		s.push("a", "t", 0)
		s.expectState("a", client.Ready)
		s.expectPop("t", "a")
		s.expectState("a", "")
	}},
	{"a delayed job is ready when it is due, and not before", func(s *stage) {
		s.serve(server.Options{})
		const delay = 50 * time.Millisecond
		began := time.Now()
		s.push("a", "t", delay)
		s.expectBPop("t", "a")
		if took := time.Since(began); took < delay {
			s.Errorf("it came after %v", took)
		}
	}},
	{"names and bodies are any bytes", func(s *stage) {
		want := client.Message{ID: "{a}:b{\x00\xff\r\n' ", Topic: "}{t:\x00\xfe\"\n", Body: "\x00\xff\r\n{}" + strings.Repeat("é", 1000)}
		_, err := s.Push(s.Context(), want, 0)
		check(s, err)
		got, err := s.Pop(s.Context(), want.Topic)
		expect(s, "the job", got, err, want)
	}},
	{"a body of 1 MiB", func(s *stage) {
		want := client.Message{ID: "a", Topic: "t", Body: strings.Repeat("\xffbody", 1<<18)}
		_, err := s.Push(s.Context(), want, 0)
		check(s, err)
		got, err := s.Pop(s.Context(), "t")
		check(s, err)
		if !reflect.DeepEqual(got, want) {
			s.Errorf("it came back as %d bytes, others than the %d", len(got.Body), len(want.Body))
		}
	}},
	{"an ID that is pushed again: replaced, refused, the earlier, the later", func(s *stage) {
		due := func(want, than time.Duration) {
			s.Helper()
			job := s.expectState("a", client.Waiting)
			if left := job.TTL - client.DefaultReadyMaxLifetime; left > want || left < want-patience {
				s.Errorf("it is due in %v, want %v", left, want)
			}
			s.push("a", "t", than)
		}
		s.push("a", "t", time.Hour)
		due(time.Hour, 2*time.Hour)
		due(2*time.Hour, 3*time.Hour)
		_, err := s.Push(s.Context(), client.Message{ID: "a", Topic: "t", Body: "b"}, 0, client.Refuse)
		expectError(s, err, client.ErrExists)
		s.push("a", "t", 9*time.Hour, client.KeepEarlier)
		due(3*time.Hour, 4*time.Hour)
		s.push("a", "t", time.Hour, client.KeepLater)
		due(4*time.Hour, 0)
		s.expectPop("t", "a")
		s.expectEmpty("t")
	}},
	{"Once: of all pushes of an ID one counts within the window, whatever becomes of the job", func(s *stage) {
		once := func(id string, window time.Duration) error {
			_, err := s.Push(s.Context(), client.Message{ID: id, Topic: "t", Body: "body of " + id}, 0, client.Once(window))
			return err
		}
		const pushers = 8
		errs := make(chan error, pushers)
		for range pushers {
			go func() { errs <- once("a", time.Hour) }()
		}
		counted := 0
		for range pushers {
			if err := redistest.Receive(s, errs); err == nil {
				counted++
			} else {
				expectError(s, err, client.ErrExists)
			}
		}
		expect(s, "how many counted", counted, nil, 1)
		s.expectPop("t", "a")
		expectError(s, once("a", time.Hour), client.ErrExists)
		_, err := s.Remove(s.Context(), "a")
		check(s, err)
		check(s, once("a", time.Hour))
		s.expectPop("t", "a")
		check(s, once("b", time.Millisecond))
		s.expectPop("t", "b")
		redistest.Until(s, "the window is over", func() bool {
			err := once("b", time.Hour)
			if !errors.Is(err, client.ErrExists) {
				check(s, err)
			}
			return err == nil
		})
	}},
	{"OnceAs: a push that does not count is told if it says something else than the one that does", func(s *stage) {
		push := func(id, content string) error {
			_, err := s.Push(s.Context(), client.Message{ID: id, Topic: "t", Body: "body of " + id}, 0, client.OnceAs(time.Hour, content))
			return err
		}
		check(s, push("a", "ten"))
		expectSame := func(state string) {
			s.Helper()
			if err := push("a", "ten"); !errors.Is(err, client.ErrExists) || errors.Is(err, client.ErrReused) {
				s.Errorf("%s, the same again: %v", state, err)
			}
			expectError(s, push("a", "twelve"), client.ErrReused)
		}
		expectSame("ready")
		s.expectPop("t", "a")
		expectSame("popped")
		s.expectEmpty("t")
		_, err := s.Remove(s.Context(), "a")
		check(s, err)
		check(s, push("a", "twelve"))
		expectError(s, push("a", "ten"), client.ErrReused)
	}},
	{"Debounce: a burst of pushes is one job, due so long after the first at the latest", func(s *stage) {
		push := func(delay, due time.Duration, want client.Outcome) {
			s.Helper()
			pushed, err := s.PushOne(s.Context(), client.Delayed{Message: client.Message{ID: "a", Topic: "t", Body: "b"}, Delay: delay}, client.Debounce(2*time.Hour))
			expect(s, "what the push did", pushed.Outcome, err, want)
			job := s.expectState("a", client.Waiting)
			if left := job.TTL - client.DefaultReadyMaxLifetime; left > due || left < due-patience {
				s.Errorf("it is due in %v, want %v", left, due)
			}
		}
		push(3*time.Hour, 2*time.Hour, client.Created)
		push(time.Hour, time.Hour, client.Replaced)
		push(9*time.Hour, 2*time.Hour, client.Replaced)
	}},
	{"Follow: a push leaves a reserved job alone, and takes its place when that is done", func(s *stage) {
		s.push("a", "t", 0)
		d := s.reserve("t", "a", 1, time.Hour)
		pushed, err := s.PushOne(s.Context(), client.Delayed{Message: client.Message{ID: "a", Topic: "t", Body: "body of a"}}, client.Follow)
		expect(s, "what the push did", pushed.Outcome, err, client.Followed)
		s.expectState("a", client.Reserved)
		check(s, d.Ack(s.Context()))
		s.expectPop("t", "a")
	}},
	{"Group: pushes of a topic and key are one job, which is ready when it is full or due", func(s *stage) {
		s.serve(server.Options{})
		push := func(body string, o client.GroupOptions, want client.Outcome) (id string) {
			s.Helper()
			pushed, err := s.PushOne(s.Context(), client.Delayed{Message: client.Message{Topic: "t", Body: body}}, client.Group("k", o))
			expect(s, "what the push did", pushed.Outcome, err, want)
			return pushed.ID
		}
		hour := client.GroupOptions{Max: 2, Longest: time.Hour}
		first := push(`{"n":1}`, hour, client.Created)
		push(`{"n":2}`, hour, client.Added)
		m, err := s.Pop(s.Context(), "t")
		expect(s, "the full group", m, err, client.Message{ID: first, Topic: "t", Body: `[{"n":1},{"n":2}]`})
		second := push("3", client.GroupOptions{Quiet: time.Millisecond}, client.Created)
		m, err = s.BPop(s.Context(), patience, "t")
		expect(s, "the group that was left alone", m, err, client.Message{ID: second, Topic: "t", Body: "[3]"})
	}},
	{"a job that nobody takes is gone when its lifetime is over", func(s *stage) {
		s.push("a", "t", 0, client.ReadyMaxLifetime(time.Millisecond))
		s.awaitGone("a")
		s.expectEmpty("t")
	}},
	{"a batch: all jobs of a chunk are stored, or none", func(s *stage) {
		s.do(s, "SET", s.keys("{x}2").JobBucket("{x}2"), "no job")
		jobs := delayed(1, 3, "t", time.Hour)
		for i := range jobs {
			jobs[i].ID = fmt.Sprintf("{x}%d", i+1)
		}
		results, err := s.PushBatch(s.Context(), jobs)
		if err == nil || len(results) != 3 || !errors.Is(results[0].Err, client.ErrOtherFailed) || results[1].Err == nil || !errors.Is(results[2].Err, client.ErrOtherFailed) {
			s.Errorf("got %+v, %v", results, err)
		}
		s.expectState("{x}1", "")
		s.expectState("{x}3", "")
	}},
	{"a batch of 1,000 jobs is pushed and popped", func(s *stage) {
		results, err := s.PushBatch(s.Context(), delayed(1, 1000, "t", 0))
		expect(s, "the results", len(results), err, 1000)
		c := newCensus(delayed(1, 1000, "t", 0))
		for range 20 {
			messages, err := s.PopBatch(s.Context(), "t", 1000)
			if errors.Is(err, client.ErrEmpty) {
				break
			}
			check(s, err)
			for _, m := range messages {
				c.count(m.ID)
			}
		}
		c.expectOnce(s)
	}},
	{"WAIT: a push says how many replicas have the job", func(s *stage) {
		_, err := s.Push(s.Context(), client.Message{ID: "a", Topic: "t", Body: "b"}, 0, client.Replicas(client.MaxReplicas, 100*time.Millisecond))
		var few *client.ReplicasError
		if !errors.As(err, &few) || few.Have < 0 || few.Err != nil {
			s.Fatalf("got %v", err)
		}
		if few.Have == 0 {
			s.Skip("stored; there is no replica to wait for")
		}
		_, err = s.Push(s.Context(), client.Message{ID: "b", Topic: "t", Body: "b"}, 0, client.Replicas(1, 5*time.Second))
		check(s, err)
	}},
	{"remove: waiting, ready, reserved or dead, and nobody gets the job", func(s *stage) {
		s.push("waiting", "t", time.Hour)
		s.push("dead", "t", 0)
		check(s, s.reserve("t", "dead", 1, time.Hour).Bury(s.Context(), "reason"))
		s.push("reserved", "t", 0)
		d := s.reserve("t", "reserved", 1, time.Hour)
		s.push("ready", "t", 0)
		for _, id := range []string{"waiting", "ready", "reserved", "dead"} {
			removed, err := s.Remove(s.Context(), id)
			expect(s, "whether "+id+" was there", removed, err, true)
			removed, err = s.Remove(s.Context(), id)
			expect(s, "whether "+id+" was there again", removed, err, false)
		}
		expectError(s, d.Retry(s.Context(), 0), client.ErrLeaseLost)
		s.expectEmpty("t")
	}},
	{"reschedule: waiting, ready or reserved", func(s *stage) {
		s.push("a", "t", time.Hour)
		check(s, s.Reschedule(s.Context(), "a", 0))
		s.expectState("a", client.Ready)
		check(s, s.Reschedule(s.Context(), "a", time.Hour))
		s.expectState("a", client.Waiting)
		s.expectEmpty("t")
		check(s, s.Reschedule(s.Context(), "a", 0))
		d := s.reserve("t", "a", 1, time.Hour)
		check(s, s.Reschedule(s.Context(), "a", 0))
		expectError(s, d.Ack(s.Context()), client.ErrLeaseLost)
		s.expectPop("t", "a")
		expectError(s, s.Reschedule(s.Context(), "a", 0), client.ErrNotFound)
	}},
	{"remove at the due moment: a job is removed or delivered, never both", func(s *stage) {
		s.serve(server.Options{})
		jobs := whenDue()
		c := newCensus(jobs)
		_, err := s.PushBatch(s.Context(), jobs)
		check(s, err)
		c.run(s, func(_ context.Context, taken func(id string)) error {
			for _, job := range jobs {
				removed, err := s.Remove(s.Context(), job.ID)
				if err != nil {
					return err
				}
				if removed {
					taken(job.ID)
				}
			}
			return nil
		}, popper(s.Client, "t"))
	}},
	{"reschedule at the due moment: a job is delivered once", func(s *stage) {
		s.serve(server.Options{})
		jobs := whenDue()
		c := newCensus(jobs)
		_, err := s.PushBatch(s.Context(), jobs)
		check(s, err)
		c.run(s, func(context.Context, func(id string)) error {
			for _, job := range jobs {
				if err := s.Reschedule(s.Context(), job.ID, 20*time.Millisecond); err != nil && !errors.Is(err, client.ErrNotFound) {
					return err
				}
			}
			return nil
		}, popper(s.Client, "t"))
	}},
}

// delayed returns jobs of one topic with the IDs first to last.
func delayed(first, last int, topic string, delay time.Duration) (jobs []client.Delayed) {
	for n := first; n <= last; n++ {
		jobs = append(jobs, client.Delayed{Message: client.Message{ID: fmt.Sprint(n), Topic: topic, Body: fmt.Sprint("body of ", n)}, Delay: delay})
	}
	return jobs
}

// whenDue returns jobs that fall due one at a time, so that a test can act between them.
func whenDue() []client.Delayed {
	jobs := delayed(1, 100, "t", 0)
	for i := range jobs {
		jobs[i].Delay = time.Duration(1+i) * time.Millisecond
	}
	return jobs
}

// census counts how often each job was taken.
type census struct {
	mu    sync.Mutex
	times map[string]int
	left  int
	all   chan struct{} // closed when all have been taken
}

func newCensus(jobs []client.Delayed) *census {
	c := &census{times: map[string]int{}, left: len(jobs), all: make(chan struct{})}
	for _, job := range jobs {
		c.times[job.ID] = 0
	}
	return c
}

func (c *census) count(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.times[id]++
	if c.times[id] == 1 {
		if c.left--; c.left == 0 {
			close(c.all)
		}
	}
}

// taker takes jobs until ctx is done and reports their IDs.
type taker func(ctx context.Context, taken func(id string)) error

// run runs the takers concurrently until all jobs are taken, and checks that each was taken exactly
// once.
func (c *census) run(s *stage, takers ...taker) {
	s.Helper()
	ctx, cancel := context.WithCancel(s.Context())
	defer cancel()
	go func() {
		select {
		case <-c.all:
		case <-ctx.Done():
		}
		cancel()
	}()
	ended := make(chan error, len(takers))
	for _, take := range takers {
		go func() { ended <- take(ctx, c.count) }()
	}
	var failed error
	for range takers {
		if err := redistest.Receive(s, ended); err != nil {
			failed = cmp.Or(failed, err)
			cancel()
		}
	}
	check(s, failed)
	c.expectOnce(s)
}

func (c *census) expectOnce(s *stage) {
	s.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	wrong := map[string]int{}
	for id, times := range c.times {
		if times != 1 {
			wrong[id] = times
		}
	}
	if len(wrong) > 0 {
		s.Fatalf("%d of %d jobs were not taken once, but so often: %v", len(wrong), len(c.times), wrong)
	}
}

// popper pops jobs of the topic.
func popper(c *client.Client, topic string) taker {
	return func(ctx context.Context, taken func(id string)) error {
		for {
			m, err := c.BPop(ctx, 0, topic)
			if err != nil {
				return unlessDone(ctx, err)
			}
			taken(m.ID)
		}
	}
}

func unlessDone(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (s *stage) expectPop(topic, id string) {
	s.Helper()
	m, err := s.Pop(s.Context(), topic)
	expect(s, "the popped job", m, err, client.Message{ID: id, Topic: topic, Body: "body of " + id})
}

func (s *stage) expectBPop(topic, id string) {
	s.Helper()
	m, err := s.BPop(s.Context(), patience, topic)
	expect(s, "the popped job", m.ID, err, id)
}

func (s *stage) expectEmpty(topic string) {
	s.Helper()
	_, err := s.Pop(s.Context(), topic)
	expectError(s, err, client.ErrEmpty)
}

func (s *stage) awaitGone(id string) {
	s.Helper()
	redistest.Until(s, id+" is gone", func() bool {
		_, err := s.Get(s.Context(), id)
		if !errors.Is(err, client.ErrNotFound) {
			check(s, err)
		}
		return err != nil
	})
}

// keys returns the keys of the job's partition.
func (s *stage) keys(id string) store.Keys {
	prefix := s.prefix
	if n := s.redis.Partitions; n > 1 {
		prefix = fmt.Sprintf("%s{%d}:", prefix, store.PartitionOf(id, n))
	}
	return store.New(nil, prefix).Keys()
}
