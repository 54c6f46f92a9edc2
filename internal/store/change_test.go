package store

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// The states of job x of topic t, among others, before and after it is rescheduled.
var rescheduledBuckets = map[string]string{"w": "t body of w", "x": "t body of x", "r1": "t body of r1", "r2": "t body of r2"}

func xWaitsAmong(due any) [][]command {
	return [][]command{waits("w", "t", 40*second), waits("x", "t", due), ready("r1", "t"), ready("r2", "t")}
}

var xIsReadyAmong = [][]command{waits("w", "t", 40*second), ready("r1", "t"), ready("x", "t"), ready("r2", "t")}
var xIsEndless = append(xIsReadyAmong, []command{{"PERSIST", "delayer:job_bucket:x"}})

func waitsStill(pool ...string) redistest.State {
	return redistest.State{Pool: pool, Ready: queues{"t": {"r1", "r2"}}, Buckets: rescheduledBuckets}
}

func readyStill(queue ...string) redistest.State {
	return redistest.State{Pool: []string{"w"}, Ready: queues{"t": queue}, Buckets: rescheduledBuckets}
}

const forever = time.Duration(-1)

var rescheduleCases = []struct {
	name     string
	seed     [][]command
	delay    time.Duration
	want     redistest.State
	lifetime time.Duration // of x once it is ready; forever: no limit
}{
	{"waiting, sooner", xWaitsAmong(60 * second), 30 * time.Second, waitsStill("x", "w"), 3540 * time.Second},
	{"waiting, later", xWaitsAmong(60 * second), 90 * time.Second, waitsStill("w", "x"), 3540 * time.Second},
	{"waiting, now", xWaitsAmong(60 * second), 0, readyStill("r1", "r2", "x"), 3540 * time.Second},
	{"ready, postponed", xIsReadyAmong, 30 * time.Second, waitsStill("x", "w"), kept},
	{"ready, now", xIsReadyAmong, 0, readyStill("r1", "x", "r2"), kept},
	{"due but not moved yet, postponed", xWaitsAmong(-10 * second), 90 * time.Second, waitsStill("w", "x"), kept},
	{"due but not moved yet, now", xWaitsAmong(-10 * second), 0, readyStill("r1", "r2", "x"), kept},
	{"waiting longer than it is kept", xWaitsAmong(after(2 * kept)), 30 * time.Second, waitsStill("x", "w"), kept},
	{"never due", xWaitsAmong("inf"), 30 * time.Second, waitsStill("x", "w"), kept},
	{"endless, postponed", xIsEndless, 30 * time.Second, waitsStill("x", "w"), forever},
	{"less than a millisecond", xIsReadyAmong, 1, waitsStill("x", "w"), kept},
}

// TestReschedule gives job x of topic t a new delay. Seeded jobs expire one hour after the seed, so a job that is due at +60 s has 3,540
// s left once it is ready.
func TestReschedule(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range rescheduleCases {
			t.Run(c.name, func(t *testing.T) {
				b.skipInfinite(t, c.seed)
				b.seed(t, c.seed...)
				// The waiting time counts from base, the expiry from the seed.
				sinceBase := b.expiry(t, "x") - b.base - kept.Seconds()
				called := b.timed(t, func() {
					check(t, b.Reschedule(t.Context(), "x", c.delay))
				})
				b.expect(t, c.want)
				due, waiting := b.due(t, "x")
				if waiting {
					called.expectAfter(t, "due time", due, max(c.delay, time.Millisecond))
					if due < called.from+c.delay.Seconds() {
						t.Errorf("due %v s after the call began: early", due-called.from)
					}
				}
				expiry := b.expiry(t, "x")
				switch {
				case c.lifetime == forever:
					if !math.IsInf(expiry, 1) {
						t.Errorf("expires in %v s, want never", expiry-called.to)
					}
				case c.lifetime == kept: // less the time since the seed
					called.expectAfter(t, "end of the lifetime", expiry, c.delay+kept-seconds64(called.from-b.base-sinceBase))
				default: // its time as a ready job is unchanged, to the millisecond
					called.expectAfter(t, "end of the lifetime", expiry, c.delay+c.lifetime+seconds64(sinceBase))
				}
			})
		}
	}, alone)
}

func seconds64(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func TestRescheduleRefused(t *testing.T) {
	cases := []struct {
		name  string
		seed  [][]command
		delay time.Duration
		want  error // nil: WRONGTYPE
	}{
		{"absent", [][]command{waits("w", "t", 60*second)}, time.Second, ErrNotFound},
		{"expired while it waited", [][]command{{{"ZADD", "delayer:job_pool", 60 * second, "x"}}}, time.Second, ErrNotFound},
		{"without a topic", [][]command{{{"HSET", "delayer:job_bucket:x", "body", "b"}}}, time.Second, ErrNotFound},
		{"bucket", [][]command{text("job_bucket:x")}, time.Second, nil},
		{"pool", [][]command{ready("x", "t"), text("job_pool")}, time.Second, nil},
		{"ready queue", [][]command{waits("x", "t", 60*second), text("ready_queue:t")}, time.Second, nil},
		{"ready queue, now", [][]command{waits("x", "t", 60*second), text("ready_queue:t")}, 0, nil},
	}
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				b.seed(t, c.seed...)
				was := b.state(t)
				err := b.Reschedule(t.Context(), "x", c.delay)
				if c.want == nil {
					b.expectError(t, err, "WRONGTYPE ")
				} else if !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
				b.expect(t, was)
			})
		}
	})
}
func TestRemove(t *testing.T) {
	neighbours := map[string]string{"w": "t body of w", "r1": "t body of r1", "r2": "t body of r2"}
	around := func(x ...[]command) [][]command {
		return append(append([][]command{waits("w", "t", 60*second), ready("r1", "t")}, x...), ready("r2", "t"))
	}
	rest := redistest.State{Pool: []string{"w"}, Ready: queues{"t": {"r1", "r2"}}, Buckets: neighbours}
	cases := []struct {
		name string
		seed [][]command
		want redistest.State
		was  string
	}{
		{"absent", around(), rest, ""},
		{"waiting", around(waits("x", "t", 60*second)), rest, "waiting"},
		{"as reserved as a score of another program says", around(waits("x", "t", "4000000000.000123")), rest, "waiting"},
		{"ready", around(ready("x", "t")), rest, "ready"},
		{"in its queue twice", around(ready("x", "t"), entry("x", "t")), rest, "ready"},
		{"popped by an old client that has not read it yet", around(content("x", "t")), rest, "ready"},
		{"bucket expired while it waited", around([]command{{"ZADD", "delayer:job_pool", 60 * second, "x"}}), rest, ""},
		{"bucket without a topic", around([]command{{"HSET", "delayer:job_bucket:x", "body", "b"}, {"ZADD", "delayer:job_pool", 60 * second, "x"}}), rest, "waiting"},
		{
			"ready in a broken queue", [][]command{content("x", "t"), text("ready_queue:t")},
			redistest.State{Other: map[string]string{"delayer:ready_queue:t": "string"}}, "ready",
		},
		{
			// The body is deleted. The entry stays, as after a removal by an original client.
			"expired while it was ready", around(entry("x", "t")),
			redistest.State{Pool: []string{"w"}, Ready: queues{"t": {"r1", "x", "r2"}}, Buckets: neighbours}, "",
		},
	}
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				b.seed(t, c.seed...)
				was, err := b.remove(t.Context(), "x")
				if err != nil || was != c.was {
					t.Errorf("got %q, %v, want %q", was, err, c.was)
				}
				b.expect(t, c.want)
			})
		}
	})
}

// One call removes jobs in every state, each with its own result. It searches a ready queue for only one job, as that is slow.
func TestRemoveMany(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, ready("reserved", "r"), ready("held", "r"), waits("waiting", "t", 60*second), ready("first", "t"), ready("second", "t"), ready("third", "t"), text("job_bucket:broken"),
			[]command{{"HSET", "delayer:dead_letter:dead", "topic", "t", "body", "b"}, {"ZADD", "delayer:dead_letters:t", 1000, "dead"}, {"ZADD", "delayer:dead_topics", 1000, "t"}})
		b.hold(t, "r", time.Minute)
		b.hold(t, "r", time.Minute)
		jobs := removals("waiting", "broken", "reserved", "held", "second", "absent", "first", "dead")
		jobs[3].UnlessReserved, jobs[4].UnlessReserved = true, true
		errs := made(t, b.Remove(jobs))
		for i, want := range []error{nil, nil, nil, ErrReserved, nil, ErrNotFound, ErrLater, nil} {
			if jobs[i].ID == "broken" {
				b.expectError(t, errs[i], "WRONGTYPE ")
			} else if was := []string{"waiting", "", "reserved", "", "ready", "", "", "dead"}[i]; errs[i] != want || jobs[i].Was != was {
				t.Errorf("%s: %v, was %q, want %v, %q", jobs[i].ID, errs[i], jobs[i].Was, want, was)
			}
		}
		b.expect(t, redistest.State{
			Reserved: []string{"held"},
			Ready:    map[string][]string{"t": {"first", "third"}},
			Buckets:  map[string]string{"first": "t body of first", "third": "t body of third", "held": "r body of held"},
			Counts:   map[string]string{"r": "1"},
			Other:    map[string]string{"delayer:job_bucket:broken": "string"},
		})
	})
}

// A reserved job stays with its lease if the removal is to spare it, also when the lease is over and no server has moved it.
func TestRemoveUnlessReserved(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, end := range []string{"", "1700000000.000123"} {
			b.seed(t, ready("x", "t"))
			held, _ := b.hold(t, "t", time.Minute)
			if end != "" {
				b.do(t, "ZADD", "delayer:job_pool", end, "x")
			}
			was, scores := b.state(t), fmt.Sprint(b.scores(t))
			r := Removal{ID: "x", UnlessReserved: true}
			if errs := made(t, b.Remove([]*Removal{&r})); errs[0] != ErrReserved || r.Was != "" {
				t.Errorf("%v, was %q", errs[0], r.Was)
			}
			b.expect(t, was)
			if now := fmt.Sprint(b.scores(t)); now != scores {
				t.Errorf("scores %s, were %s", now, scores)
			}
			if end == "" {
				check(t, made(t, b.Ack([]LeaseRef{held}))[0])
			}
		}
	})
}

func TestRemoveRefusedByWrongType(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for name, seed := range map[string][][]command{
			"bucket": {{{"ZADD", "delayer:job_pool", 60 * second, "x"}}, text("job_bucket:x")},
			"pool":   {ready("x", "t"), text("job_pool")},
		} {
			t.Run(name, func(t *testing.T) {
				b.expectRefused(t, "WRONGTYPE ", func() error { return errOf(b.remove(t.Context(), "x")) }, seed...)
			})
		}
	})
}

// A job removed from a very long queue leaves its ID behind, and no consumer receives it.
func TestRemoveFromLongQueue(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	b.seed(t, ready("x", "t"), ghosts("t", 10000), ready("last", "t"))
	if was, err := b.remove(t.Context(), "x"); was != "ready" || err != nil {
		t.Fatal(was, err)
	}
	queue := append(append([]string{"x"}, ghostIDs(10000)...), "last")
	b.expect(t, redistest.State{Ready: map[string][]string{"t": queue}, Buckets: map[string]string{"last": "t body of last"}})
	taken, met, err := b.pop(t.Context(), []string{"t"})
	if err != nil || taken.ID != "last" || len(met) != 10001 || met[0] != "x" {
		t.Errorf("took %v after %d ghosts: %v", taken, len(met), err)
	}
	b.expect(t, redistest.State{})

	b.seed(t, ready("x", "t"), ghosts("t", 9999))
	if was, err := b.remove(t.Context(), "x"); was != "ready" || err != nil {
		t.Fatal(was, err)
	}
	b.expect(t, redistest.State{Ready: map[string][]string{"t": ghostIDs(9999)}})
	if was, err := b.remove(t.Context(), "x"); was != "" || err != nil {
		t.Error("removed twice:", was, err)
	}
}
