package store

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// pushedLifetime is the lifetime of the pushed jobs in these tests once they are ready.
const pushedLifetime = 24 * time.Hour

// Job x may be absent before its push, or wait in topic old, due at +60 s, or be ready between others.
var (
	xAbsent  = [][]command{waits("w", "old", 60*second), ready("r", "old")}
	xIsReady = [][]command{ready("r1", "old"), ready("x", "old"), ready("r2", "old"), ready("n", "new"), waits("w", "old", 60*second)}

	absentBuckets  = buckets{"w": "old body of w", "r": "old body of r", "x": "new new body"}
	waitingBuckets = buckets{"w": "old body of w", "z": "old body of z", "r": "old body of r", "x": "new new body"}
	readyBuckets   = buckets{"w": "old body of w", "r1": "old body of r1", "r2": "old body of r2", "n": "new body of n", "x": "new new body"}

	// As above, after a push of x to its own topic.
	waitingRenewed = buckets{"w": "old body of w", "z": "old body of z", "r": "old body of r", "x": "old new body"}
	readyRenewed   = buckets{"w": "old body of w", "r1": "old body of r1", "r2": "old body of r2", "n": "new body of n", "x": "old new body"}

	xRescheduled  = redistest.State{Pool: []string{"x", "w"}, Ready: queues{"old": {"r1", "r2"}, "new": {"n"}}, Buckets: readyBuckets}
	xChangedQueue = redistest.State{Pool: []string{"w"}, Ready: queues{"old": {"r1", "r2"}, "new": {"n", "x"}}, Buckets: readyBuckets}
	xDeferred     = redistest.State{Pool: []string{"x", "w"}, Ready: queues{"old": {"r1", "r2"}, "new": {"n"}}, Buckets: readyRenewed}
	xLast         = redistest.State{Pool: []string{"w"}, Ready: queues{"old": {"r1", "r2", "x"}, "new": {"n"}}, Buckets: readyRenewed}
)

func xWaits(due any) [][]command {
	return [][]command{waits("w", "old", 40*second), waits("x", "old", due), waits("z", "old", 80*second), ready("r", "old")}
}

func xWaiting(b buckets, pool ...string) redistest.State {
	return redistest.State{Pool: pool, Ready: queues{"old": {"r"}}, Buckets: b}
}

func xReady(b buckets, pool ...string) redistest.State {
	return redistest.State{Pool: pool, Ready: queues{"old": {"r"}, "new": {"x"}}, Buckets: b}
}

func xReadyAgain(b buckets, pool ...string) redistest.State {
	return redistest.State{Pool: pool, Ready: queues{"old": {"r", "x"}}, Buckets: b}
}

const in30 = 30 * time.Second

// pushCase is a push of job x, body "new body".
type pushCase struct {
	name   string
	seed   [][]command
	policy Policy
	topic  string        // new, if it is empty
	delay  time.Duration // used unless at is set
	at     after
	want   redistest.State // on an error, the state of the seed
	due    any             // of x if it waits: relative to the seed (after) or the push (time.Duration), or a score
	err    error
}

func TestPush(t *testing.T) {
	testPushes(t,
		pushCase{name: "absent, replace", seed: xAbsent, policy: Replace, delay: in30, want: xWaiting(absentBuckets, "x", "w"), due: in30},
		pushCase{name: "absent, refuse", seed: xAbsent, policy: Refuse, delay: in30, want: xWaiting(absentBuckets, "x", "w"), due: in30},
		pushCase{name: "absent, no delay", seed: xAbsent, policy: Replace, want: xReady(absentBuckets, "w")},
		pushCase{name: "absent, less than a millisecond", seed: xAbsent, policy: Replace, delay: 1, want: xWaiting(absentBuckets, "x", "w"), due: time.Millisecond},
		pushCase{name: "absent, at a time", seed: xAbsent, policy: Replace, at: 45*second + after(250*time.Millisecond), want: xWaiting(absentBuckets, "x", "w"), due: 45*second + after(250*time.Millisecond)},
		pushCase{name: "absent, at a time that is past", seed: xAbsent, policy: Replace, at: -second, want: xReady(absentBuckets, "w")},
		pushCase{
			name: "bucket expired while it waited, refuse", policy: Refuse, delay: in30,
			seed: [][]command{{{"ZADD", "delayer:job_pool", 60 * second, "x"}}},
			want: redistest.State{Pool: []string{"x"}, Buckets: buckets{"x": "new new body"}}, due: in30,
		},
		pushCase{
			name: "bucket expired while it waited, no delay", policy: Replace,
			seed: [][]command{{{"ZADD", "delayer:job_pool", 60 * second, "x"}}},
			want: redistest.State{Ready: queues{"new": {"x"}}, Buckets: buckets{"x": "new new body"}},
		},
		pushCase{
			name: "bucket without a topic, later", policy: KeepLater, delay: in30,
			seed: [][]command{{{"ZADD", "delayer:job_pool", 60 * second, "x"}, {"HSET", "delayer:job_bucket:x", "body", "b"}}},
			want: redistest.State{Pool: []string{"x"}, Buckets: buckets{"x": "new new body"}}, due: in30,
		},
		pushCase{
			name: "ready in a broken queue, replace", policy: Replace, delay: in30,
			seed: [][]command{content("x", "old"), text("ready_queue:old")},
			want: redistest.State{Pool: []string{"x"}, Buckets: buckets{"x": "new new body"}, Other: buckets{"delayer:ready_queue:old": "string"}}, due: in30,
		},
		pushCase{
			name: "delayed into a broken queue", policy: Replace, delay: in30,
			seed: [][]command{text("ready_queue:new")},
			want: redistest.State{Pool: []string{"x"}, Buckets: buckets{"x": "new new body"}, Other: buckets{"delayer:ready_queue:new": "string"}}, due: in30,
		},
	)
}

func TestPushOfAWaitingJob(t *testing.T) {
	testPushes(t,
		pushCase{name: "waiting, replace, sooner", seed: xWaits(60 * second), policy: Replace, delay: in30, want: xWaiting(waitingBuckets, "x", "w", "z"), due: in30},
		pushCase{name: "waiting, replace, later", seed: xWaits(60 * second), policy: Replace, delay: 90 * time.Second, want: xWaiting(waitingBuckets, "w", "z", "x"), due: 90 * time.Second},
		pushCase{name: "waiting, refuse", seed: xWaits(60 * second), policy: Refuse, delay: in30, err: ErrExists},
		pushCase{name: "waiting, earlier, sooner", seed: xWaits(60 * second), policy: KeepEarlier, topic: "old", delay: in30, want: xWaiting(waitingRenewed, "x", "w", "z"), due: in30},
		pushCase{name: "waiting, earlier, later", seed: xWaits(60 * second), policy: KeepEarlier, topic: "old", delay: 90 * time.Second, want: xWaiting(waitingRenewed, "w", "x", "z"), due: 60 * second},
		pushCase{name: "waiting, later, sooner", seed: xWaits(60 * second), policy: KeepLater, topic: "old", delay: in30, want: xWaiting(waitingRenewed, "w", "x", "z"), due: 60 * second},
		pushCase{name: "waiting, later, later", seed: xWaits(60 * second), policy: KeepLater, topic: "old", delay: 90 * time.Second, want: xWaiting(waitingRenewed, "w", "z", "x"), due: 90 * time.Second},
		pushCase{name: "waiting, replace, no delay", seed: xWaits(60 * second), policy: Replace, want: xReady(waitingBuckets, "w", "z")},
		pushCase{name: "waiting, later, no delay", seed: xWaits(60 * second), policy: KeepLater, topic: "old", want: xWaiting(waitingRenewed, "w", "x", "z"), due: 60 * second},
		pushCase{name: "due but not moved yet, later", seed: xWaits(-5 * second), policy: KeepLater, topic: "old", delay: in30, want: xWaiting(waitingRenewed, "x", "w", "z"), due: in30},
		pushCase{name: "due but not moved yet, earlier", seed: xWaits(-5 * second), policy: KeepEarlier, topic: "old", delay: in30, want: xReadyAgain(waitingRenewed, "w", "z")},
		pushCase{name: "never due, earlier", seed: xWaits("inf"), policy: KeepEarlier, topic: "old", delay: in30, want: xWaiting(waitingRenewed, "x", "w", "z"), due: in30},
		pushCase{name: "never due, later", seed: xWaits("inf"), policy: KeepLater, topic: "old", delay: in30, want: xWaiting(waitingRenewed, "w", "z", "x"), due: 9007199254740.992},
		pushCase{name: "always due, earlier", seed: xWaits("-inf"), policy: KeepEarlier, topic: "old", delay: in30, want: xReadyAgain(waitingRenewed, "w", "z")},
		pushCase{name: "always due, later", seed: xWaits("-inf"), policy: KeepLater, topic: "old", delay: in30, want: xWaiting(waitingRenewed, "x", "w", "z"), due: in30},
	)
}

func TestPushOfAReadyJob(t *testing.T) {
	testPushes(t,
		pushCase{name: "ready, replace", seed: xIsReady, policy: Replace, delay: in30, want: xRescheduled, due: in30},
		pushCase{name: "ready, refuse", seed: xIsReady, policy: Refuse, delay: in30, err: ErrExists},
		pushCase{name: "ready, earlier", seed: xIsReady, policy: KeepEarlier, topic: "old", delay: in30, want: xLast},
		pushCase{name: "ready, later", seed: xIsReady, policy: KeepLater, topic: "old", delay: in30, want: xDeferred, due: in30},
		pushCase{name: "ready, replace, no delay", seed: xIsReady, policy: Replace, want: xChangedQueue},
	)
}

// Only Replace takes an ID from another topic. Under the other policies nothing changes; refusing ones say that the ID exists.
func TestPushToAnotherTopic(t *testing.T) {
	seeds := map[string][][]command{
		"waiting": xWaits(60 * second), "due": xWaits(-5 * second), "ready": xIsReady,
		"reserved": {waits("x", "old", "4000000000.000123"), field("x", "lease", "1 5 0 0")},
	}
	var cases []pushCase
	for state, seed := range seeds {
		for name, policy := range map[string]Policy{"default": Default, "earlier": KeepEarlier, "later": KeepLater, "follow": Follow, "debounce": Debounce(time.Hour)} {
			for _, delay := range []time.Duration{0, in30} {
				cases = append(cases, pushCase{name: fmt.Sprint(state, ", ", name, ", ", delay), seed: seed, policy: policy, delay: delay, err: ErrOtherTopic})
			}
		}
		cases = append(cases, pushCase{name: state + ", once", seed: seed, policy: Once(time.Hour), err: ErrExists})
	}
	testPushes(t, cases...)
}

// A push that is refused because of its topic affects no other of its call, names both topics, and a dead letter is no job.
func TestOtherTopicInABatch(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, waits("x", "o\xff", 60*second), waits("y", "t", 60*second), []command{{"HSET", "delayer:dead_letter:z", "topic", "old", "body", "b"}, {"ZADD", "delayer:dead_letters:old", 1000, "z"}, {"ZADD", "delayer:dead_topics", 1000, "old"}})
		told := make([]Told, 4)
		job := func(i int, id string, policy Policy) Delayed {
			return Delayed{Job{ID: id, Topic: "t", Body: "new"}, Due{After: time.Hour}, Terms{Lifetime: kept, Policy: policy}, &told[i]}
		}
		errs := made(t, b.PushAll([]Delayed{job(0, "x", Default), job(1, "y", Default), job(2, "z", Default), job(3, "new", KeepLater)}))
		if want := []Told{{Did: DidRefuse}, {Did: DidReplace}, {Did: DidCreate}, {Did: DidCreate}}; !slices.Equal(told, want) || errors.Join(errs[1:]...) != nil {
			t.Errorf("told %v, errors %v, want %v", told, errs, want)
		}
		if want := `a job of another topic has this ID: it is of "o\xff", and the push is to "t"`; !errors.Is(errs[0], ErrOtherTopic) || errs[0].Error() != want {
			t.Errorf("error %v, want %s", errs[0], want)
		}
		check(t, b.push(t.Context(), Job{ID: "x", Topic: "t", Body: "new"}, Due{After: time.Hour}, kept, Replace))
	})
}

func testPushes(t *testing.T, cases ...pushCase) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				b.skipInfinite(t, c.seed)
				b.seed(t, c.seed...)
				was, dueWas, expiryWas := b.state(t), b.scores(t), 0.0
				if c.err != nil {
					expiryWas = b.expiry(t, "x")
				}
				when := Due{After: c.delay}
				if c.at != 0 {
					when = Due{At: time.UnixMilli(int64(b.base)*1000 + time.Duration(c.at).Milliseconds())}
				}
				var err error
				pushed := b.timed(t, func() {
					err = b.push(t.Context(), Job{ID: "x", Topic: cmp.Or(c.topic, "new"), Body: "new body"}, when, pushedLifetime, c.policy)
				})
				if !errors.Is(err, c.err) {
					t.Fatalf("error %v, want %v", err, c.err)
				}
				if c.err != nil {
					b.expect(t, was)
					for id, score := range b.scores(t) {
						if score != dueWas[id] {
							t.Errorf("score of %s is %s, was %s", id, score, dueWas[id])
						}
					}
					if got := b.expiry(t, "x"); math.Abs(got-expiryWas) > rounding {
						t.Errorf("lifetime changed by %v s", got-expiryWas)
					}
					return
				}
				b.expect(t, c.want)
				b.expectPushed(t, pushed, c.due)
			})
		}
	}, alone)
}

// expectPushed checks when x is due, and how long it is kept.
func (b *backend) expectPushed(t *testing.T, pushed span, wantDue any) {
	t.Helper()
	due, waiting := b.due(t, "x")
	if !waiting {
		pushed.expectAfter(t, "expiry", b.expiry(t, "x"), pushedLifetime)
		return
	}
	switch want := wantDue.(type) {
	case after:
		if math.Abs(due-b.base-time.Duration(want).Seconds()) > 1e-6 {
			t.Errorf("due %v s after the seed, want %v", due-b.base, time.Duration(want))
		}
	case time.Duration:
		pushed.expectAfter(t, "due time", due, want)
		if due < pushed.from+want.Seconds() {
			t.Errorf("due %v s after the push began: early", due-pushed.from)
		}
	case float64:
		if due != want {
			t.Errorf("score %v, want %v", due, want)
		}
	}
	// The script reads the clock first and sets the lifetime a little later in the same call.
	allowed := rounding + pushed.to - pushed.from
	if lifetime := b.expiry(t, "x") - due; math.Abs(lifetime-pushedLifetime.Seconds()) > allowed {
		t.Errorf("kept for %v s after it is due, want %v", lifetime, pushedLifetime)
	}
}

func TestPushRefusedByWrongType(t *testing.T) {
	cases := []struct {
		name  string
		seed  [][]command
		delay time.Duration
	}{
		{"pool", [][]command{text("job_pool")}, time.Second},
		{"pool, no delay", [][]command{text("job_pool")}, 0},
		{"pool, of a ready job", [][]command{ready("x", "t"), text("job_pool")}, time.Second},
		{"bucket", [][]command{text("job_bucket:x")}, time.Second},
		{"bucket, of a waiting job", [][]command{{{"ZADD", "delayer:job_pool", 60 * second, "x"}}, text("job_bucket:x")}, 0},
		{"ready queue, no delay", [][]command{text("ready_queue:t")}, 0},
		{"ready queue, no delay, of a waiting job", [][]command{waits("x", "t", 60*second), text("ready_queue:t")}, 0},
		{"ready queue, no delay, of a job ready elsewhere", [][]command{ready("x", "old"), text("ready_queue:t")}, 0},
	}
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				b.expectRefused(t, "WRONGTYPE ", func() error {
					return b.push(t.Context(), Job{ID: "x", Topic: "t", Body: "new"}, Due{After: c.delay}, kept, Replace)
				}, c.seed...)
			})
		}
	})
}

// TestPushScore checks the commands that Redis receives, since a score read back has been converted to a double.
func TestPushScore(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	at := func(s string) time.Time {
		due, err := time.Parse(time.RFC3339Nano, s)
		check(t, err)
		return due
	}
	for _, c := range []struct {
		due  time.Time
		want string
	}{
		{at("2100-01-01T00:00:00Z"), "4102444800"},
		{at("2100-01-01T00:00:00.5Z"), "4102444800.500"},
		{at("2100-01-01T00:00:00.123Z"), "4102444800.123"},
		{at("2100-01-01T00:00:00.123000001Z"), "4102444800.124"}, // rounded up, so never early
		{at("2100-01-01T00:00:00.999000001Z"), "4102444801"},
		{at("2100-01-01T01:00:00.007+01:00"), "4102444800.007"},
		{at("9999-12-31T23:59:59.999Z"), "253402300799.999"},
	} {
		got := b.monitor(t, func() {
			check(t, b.push(t.Context(), Job{ID: "x", Topic: "t", Body: "b"}, Due{At: c.due}, kept, Replace))
		})
		want := `"ZADD" "delayer:job_pool" "` + c.want + `" "x"`
		if !slices.ContainsFunc(got, func(line string) bool { return strings.HasSuffix(line, want) }) {
			t.Errorf("%v: want %s in\n%s", c.due, want, strings.Join(got, "\n"))
		}
	}
}

// IDs, topics and bodies may contain any bytes.
func TestPushAnyBytes(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, s := range []string{" ", "a b", "a,b", "a:b", "a\nb", "{a}", "Größe 注文", "\x00\xff\xfe", "*", "%d", "']"} {
			b.seed(t)
			job := Job{ID: "id" + s, Topic: "topic" + s, Body: "body" + s}
			check(t, b.push(t.Context(), job, Due{After: time.Hour}, kept, Replace))
			b.expect(t, redistest.State{Pool: []string{job.ID}, Buckets: map[string]string{job.ID: job.Topic + " " + job.Body}})
			check(t, b.Reschedule(t.Context(), job.ID, 0))
			taken, _, err := b.pop(t.Context(), []string{job.Topic})
			if err != nil || !reflect.DeepEqual(taken, job) {
				t.Errorf("took %+v, %v, want %+v", taken, err, job)
			}
			b.expect(t, redistest.State{})
		}
	})
}

// However many ready IDs are pushed again, one call walks over at most 10,000 queue entries. Entries beyond that stay behind as stale
// ones.
func TestPushWalksLittle(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	const again = 10
	var batch []Delayed
	seeds := [][]command{ghosts("t", 2990)}
	for n := range again {
		id := fmt.Sprint("x", n)
		seeds = append(seeds, ready(id, "t"))
		batch = append(batch, aJob(id, "t", time.Hour))
	}
	b.seed(t, seeds...)
	p, err := b.Pipeline(t.Context())
	check(t, err)
	defer p.Close()
	lines := b.monitor(t, func() {
		if errs, err := b.PushAll(batch).Do(t.Context()); err != nil || !slices.Equal(errs, make([]error, again)) {
			t.Error(errs, err)
		}
	})
	walks := 0
	for _, line := range lines {
		if strings.Contains(line, `"LREM"`) {
			walks++
		}
	}
	if walks != 3 {
		t.Errorf("%d walks over 3,000 entries each, want 3", walks)
	}
	if _, _, err := b.pop(t.Context(), []string{"t"}); !errors.Is(err, ErrEmpty) {
		t.Errorf("pop of rescheduled jobs: %v", err)
	}
}

// Each job of a call has its own lifetime and policy.
func TestPushOfDifferentTerms(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, waits("exists", "t", 60*second), waits("later", "t", 60*second))
		in := func(d time.Duration) Due { return Due{After: d} }
		const short, long = 10 * time.Minute, 1000 * time.Hour
		errs, err := b.Push([]Delayed{
			{Job{ID: "a", Topic: "t", Body: "new"}, in(time.Hour), Terms{Lifetime: short, Policy: Replace}, nil},
			{Job{ID: "b", Topic: "t", Body: "new"}, in(time.Hour), Terms{Lifetime: long, Policy: Replace}, nil},
			{Job{ID: "exists", Topic: "t", Body: "new"}, in(time.Hour), Terms{Lifetime: long, Policy: Refuse}, nil},
			{Job{ID: "later", Topic: "t", Body: "new"}, in(time.Hour), Terms{Lifetime: short, Policy: KeepEarlier}, nil},
		}).Do(t.Context())
		if err != nil || !slices.Equal(errs, []error{nil, nil, ErrExists, nil}) {
			t.Fatal(errs, err)
		}
		now := b.clock(t)
		for id, want := range map[string]time.Duration{"a": time.Hour + short, "b": time.Hour + long, "exists": kept, "later": time.Minute + short} {
			if got := b.expiry(t, id) - now; math.Abs(got-want.Seconds()) > 5 {
				t.Errorf("%s is kept for %.0f s, want %v", id, got, want)
			}
		}
		b.expect(t, redistest.State{Pool: []string{"exists", "later", "a", "b"}, Buckets: map[string]string{"a": "t new", "b": "t new", "exists": "t body of exists", "later": "t new"}})
	}, alone)
}

// pushAll stores the jobs in one call.
func (b *backend) pushAll(t *testing.T, jobs ...Delayed) error {
	return errorOf(b.PushAll(jobs).Do(t.Context()))
}
