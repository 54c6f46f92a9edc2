package client_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

var crowdJobs = flag.Int("limit.jobs", 0, "how many jobs TestCrowdOfLimits has: 4500 if it is 0, or 1500 in the short set")

const (
	crowdTopics = 200
	crowdLease  = 500 * time.Millisecond
	// crowdAhead is the maximum number of pushed jobs that are unfinished.
	crowdAhead = 2000
	// crowdStands is the maximum number of jobs of other topics that begin while a topic stands still. If a caller's
	// connection is cut just as the caller is woken, its job waits until the caller has reconnected. So this counts
	// only after half of the jobs are pushed.
	crowdStands = 1000
)

// limitedCrowd has many callers that wait for jobs of limited topics, and records what happens to the jobs.
type limitedCrowd struct {
	*fixture
	topics []*limited
	of     map[string]*limited

	mu     sync.Mutex
	left   map[string]bool      // unfinished jobs, by their IDs
	unsure map[string]bool      // jobs that may be finished: a reply was lost
	held   map[string]time.Time // ends of leases
	paused map[string]bool
	most   map[string]int // maximum number of reserved jobs by topic, 0 for no limit
	begun  map[string]int // by topic
	all    int            // of all topics
	late   int            // value of all when half of the jobs were pushed
}

func newCrowd(f *fixture) *limitedCrowd {
	w := &limitedCrowd{
		fixture: f, of: map[string]*limited{}, left: map[string]bool{}, unsure: map[string]bool{}, held: map[string]time.Time{},
		paused: map[string]bool{}, most: map[string]int{}, begun: map[string]int{}, late: math.MaxInt,
	}
	n := max(f.Partitions, 1)
	limits := []client.Limit{{Concurrency: n}, {Rate: 50, Burst: 5}, {Concurrency: n, Rate: 50, Burst: 1}, {Concurrency: 1}, {Concurrency: n + 2}}
	for i := range crowdTopics {
		l := &limited{topic: fmt.Sprint("t", i), Limit: limits[i%len(limits)]}
		if l.Concurrency == 1 {
			l.Tag = l.topic
		}
		l.held.until = map[string]time.Time{}
		w.topics, w.of[l.topic], w.most[l.topic] = append(w.topics, l), l, l.Concurrency
		check(f.TB, f.SetLimit(f.TB.Context(), l.topic, l.Limit))
	}
	return w
}

// A thousand callers wait for jobs of limited topics and get them all, although some callers die, connections are cut,
// topics are paused, and limits change and end. No topic with a job and room for it stands still, no topic exceeds its
// limit, and no job is lost or handled twice.
func TestCrowdOfLimits(t *testing.T) {
	*crowdJobs = cmp.Or(*crowdJobs, redistest.Rounds(1500, 4500))
	forms := map[string][]redistest.Need{"one or many": {alone}, "5 partitions": {alone, redistest.InPartitions(5)}}
	if testing.Short() {
		delete(forms, "5 partitions")
	}
	for name, needs := range forms {
		t.Run(name, func(t *testing.T) {
			w := newCrowd(start(t, needs...))
			defer w.serve()()
			began := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			var callers sync.WaitGroup
			defer callers.Wait()
			defer cancel()
			w.arrive(ctx, &callers)
			stood := later(func() map[string]int { return w.watch(ctx) })
			w.disturb()
			until(t, "all jobs are done", w.isDone)
			cancel()
			callers.Wait()
			w.expect(time.Since(began), arrival(t, stood))
		})
	}
}

// arrive starts callers for each topic: four that wait in different ways, and a worker.
func (w *limitedCrowd) arrive(ctx context.Context, callers *sync.WaitGroup) {
	for way, take := range []func(ctx context.Context, c *client.Client, topic, next string){w.reserve, w.giveUp, w.takeOfTwo, w.fetch} {
		for half := range 2 {
			c := w.as("consumer", "~* &* +@all")
			for i := half; i < crowdTopics; i += 2 {
				topic, next := w.topics[i].topic, w.topics[(i+way+1)%crowdTopics].topic
				callers.Go(func() {
					for ctx.Err() == nil {
						take(ctx, c, topic, next)
					}
				})
			}
		}
	}
	for i := range 4 {
		mux := worker.NewMux()
		for _, l := range w.topics[i*crowdTopics/4 : (i+1)*crowdTopics/4] {
			mux.HandleFunc(l.topic, w.handle)
		}
		o := worker.Options{
			Concurrency: crowdTopics / 4, Lease: 10 * time.Second, MaxAttempts: 1000,
			Backoff: func(*worker.Job, error) time.Duration { return 0 }, Logger: slog.New(slog.DiscardHandler),
		}
		work := worker.New(w.open(), mux, o)
		callers.Go(func() { work.Run(ctx) })
	}
}

func (w *limitedCrowd) reserve(ctx context.Context, c *client.Client, topic, _ string) {
	if d, err := c.Reserve(ctx, crowdLease, topic); err == nil {
		w.work(d)
	}
}

// giveUp waits with a short timeout.
func (w *limitedCrowd) giveUp(ctx context.Context, c *client.Client, topic, next string) {
	ctx, cancel := context.WithTimeout(ctx, rand.N(time.Second))
	defer cancel()
	w.reserve(ctx, c, topic, next)
}

func (w *limitedCrowd) takeOfTwo(ctx context.Context, c *client.Client, topic, next string) {
	if d, err := c.Reserve(ctx, crowdLease, topic, next); err == nil {
		w.work(d)
	}
}

// fetch asks for more jobs than may be reserved at a time.
func (w *limitedCrowd) fetch(ctx context.Context, c *client.Client, topic, _ string) {
	list, _ := c.Fetch(ctx, client.FetchOptions{Topics: fetchTopics(topic), Max: 10, Lease: crowdLease})
	var wait sync.WaitGroup
	for _, d := range list {
		wait.Go(func() { w.work(d) })
	}
	wait.Wait()
}

// work is a consumer, which may die.
func (w *limitedCrowd) work(d *client.Delivery) {
	ctx := w.TB.Context()
	w.begin(d.Topic, d.ID, d.Token, d.Deadline())
	if rand.N(50) == 0 {
		return
	}
	time.Sleep(rand.N(2 * time.Millisecond))
	w.end(d.Topic, d.ID, d.Token)
	switch rand.N(20) {
	case 0:
		d.Retry(ctx, time.Duration(rand.N(10))*time.Millisecond, nil)
	case 1:
		d.Release(ctx, 0)
	default:
		w.done(d.ID, d.Ack(ctx))
	}
}

// handle is a worker's handler; the worker extends its leases.
func (w *limitedCrowd) handle(_ context.Context, job *worker.Job) error {
	w.begin(job.Topic, job.ID, job.Token, time.Now().Add(5*time.Second))
	time.Sleep(rand.N(2 * time.Millisecond))
	w.end(job.Topic, job.ID, job.Token)
	if rand.N(20) == 0 {
		return errors.New("again")
	}
	w.done(job.ID, nil) // the worker returns the job once it has noticed
	return nil
}

func (w *limitedCrowd) begin(topic, id string, token int64, until time.Time) {
	w.of[topic].held.begins(fmt.Sprint(id, token), until)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun[topic]++
	w.all++
	now := time.Now()
	if !now.Before(until) {
		return // too late for a valid lease
	}
	if now.Before(w.held[id]) {
		w.TB.Errorf("%s was begun twice", id)
	}
	if !w.left[id] && !w.unsure[id] {
		w.TB.Errorf("%s was begun though it was done", id)
	}
	w.held[id] = until
}

func (w *limitedCrowd) end(topic, id string, token int64) {
	w.of[topic].held.ends(fmt.Sprint(id, token))
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.held, id)
}

// done records the result of acknowledging a job.
func (w *limitedCrowd) done(id string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		delete(w.left, id)
	case !errors.Is(err, client.ErrLeaseLost):
		w.unsure[id] = true
	}
}

// isDone reports whether no job is left.
func (w *limitedCrowd) isDone() bool {
	w.mu.Lock()
	sure := 0
	for id := range w.left {
		if !w.unsure[id] {
			sure++
		}
	}
	w.mu.Unlock()
	if sure > 0 {
		return false
	}
	s, err := w.Stats(w.TB.Context())
	check(w.TB, err)
	n := s.Waiting
	for _, topic := range s.Topics {
		n += topic.Ready + topic.Reserved
	}
	return n == 0
}

// disturb pushes the jobs, a few at a time. In between it disturbs a topic.
func (w *limitedCrowd) disturb() {
	for pushed, round := 0, 0; pushed < *crowdJobs; round++ {
		jobs := make([]client.Item, 1+rand.N(40))
		w.mu.Lock()
		for i := range jobs {
			jobs[i] = client.Item{Message: w.topics[rand.N(crowdTopics)].next(), Delay: time.Duration(rand.N(10)) * time.Millisecond}
			w.left[jobs[i].ID] = true
		}
		w.mu.Unlock()
		check(w.TB, errOf(w.PushBatch(w.TB.Context(), jobs)))
		pushed += len(jobs)
		if round%25 == 24 && pushed < *crowdJobs/3 {
			w.Do("CLIENT", "KILL", "USER", "consumer")
		}
		w.pauseOrResume(w.topics[3*rand.N(10)])
		w.change(w.topics[30+3*rand.N(10)])
		until(w.TB, "the callers keep up", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			if pushed >= *crowdJobs/2 {
				w.late = min(w.late, w.all)
			}
			return len(w.left) < crowdAhead
		})
	}
	for _, l := range w.topics {
		if w.paused[l.topic] {
			w.pauseOrResume(l)
		}
	}
}

func (w *limitedCrowd) pauseOrResume(l *limited) {
	w.mu.Lock()
	paused := w.paused[l.topic]
	w.paused[l.topic] = true
	w.mu.Unlock()
	if !paused {
		check(w.TB, w.Pause(w.TB.Context(), l.topic, client.PauseOptions{}))
		return
	}
	check(w.TB, errOf(w.Resume(w.TB.Context(), l.topic)))
	w.mu.Lock()
	w.paused[l.topic] = false
	w.mu.Unlock()
}

// change sets another limit for the topic, restores the previous one, or removes it.
func (w *limitedCrowd) change(l *limited) {
	more := l.Limit
	if l.Concurrency > 0 {
		more.Concurrency += 3
	}
	if l.Rate > 0 {
		more.Rate *= 2
	}
	w.mu.Lock()
	w.most[l.topic] = 0 // changes take some time
	w.mu.Unlock()
	set := []client.Limit{l.Limit, l.Limit, more, {}}[rand.N(4)]
	check(w.TB, w.SetLimit(w.TB.Context(), l.topic, set))
}

// watch watches the topics until ctx ends. For each topic it returns the maximum number of jobs of other topics that
// began while the topic had a job and room for it but began none. It counts from when half of the jobs were pushed.
func (w *limitedCrowd) watch(ctx context.Context) map[string]int {
	stood, since, begun := map[string]int{}, map[string]int{}, map[string]int{}
	for ctx.Err() == nil {
		w.mu.Lock()
		before := w.all
		w.mu.Unlock()
		s, err := w.Stats(ctx)
		if err != nil {
			continue
		}
		w.mu.Lock()
		for _, topic := range s.Topics {
			name := topic.Topic
			_, stands := since[name]
			switch {
			case topic.Ready <= topic.Throttled || w.paused[name]:
				delete(since, name)
			case !stands || begun[name] != w.begun[name]:
				since[name] = before
			default:
				stood[name] = max(stood[name], before-max(since[name], w.late))
			}
			begun[name] = w.begun[name]
		}
		w.mu.Unlock()
		time.Sleep(10 * time.Millisecond)
	}
	return stood
}

func (w *limitedCrowd) expect(took time.Duration, stood map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	longest, reached := 0, 0
	for _, l := range w.topics {
		most := w.most[l.topic]
		if most > 0 && l.held.most > most {
			w.TB.Errorf("of %s %d were reserved at a time, want %d at most", l.topic, l.held.most, most)
		}
		if most > 0 && l.held.most == most {
			reached++
		}
		longest = max(longest, stood[l.topic])
		if stood[l.topic] > crowdStands {
			w.TB.Errorf("%d jobs of others were begun while %s stood still", stood[l.topic], l.topic)
		}
	}
	w.TB.Logf("%d jobs were begun in %v; %d topics reached their limit; while one stood still %d of others were begun; %d acks are unsure",
		w.all, took, reached, longest, len(w.unsure))
}
