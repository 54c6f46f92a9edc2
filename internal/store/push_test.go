package store

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// pushedLifetime is the lifetime of the pushed jobs in these tests once they are ready.
const pushedLifetime = 24 * time.Hour

// TestPush pushes job x, topic new, body "new body".
func TestPush(t *testing.T) {
	const in30 = 30 * time.Second
	// x may be absent beforehand, or wait in topic old, due at +60 s, or be ready between others.
	absent := [][]command{waits("w", "old", 60*second), ready("r", "old")}
	waiting := func(due any) [][]command {
		return [][]command{waits("w", "old", 40*second), waits("x", "old", due), waits("z", "old", 80*second), ready("r", "old")}
	}
	isReady := [][]command{ready("r1", "old"), ready("x", "old"), ready("r2", "old"), ready("n", "new"), waits("w", "old", 60*second)}

	absentBuckets := buckets{"w": "old body of w", "r": "old body of r", "x": "new new body"}
	waitingBuckets := buckets{"w": "old body of w", "z": "old body of z", "r": "old body of r", "x": "new new body"}
	readyBuckets := buckets{"w": "old body of w", "r1": "old body of r1", "r2": "old body of r2", "n": "new body of n", "x": "new new body"}

	waitsFirst := func(b buckets, pool ...string) redistest.State {
		return redistest.State{Pool: pool, Ready: queues{"old": {"r"}}, Buckets: b}
	}
	becomesReady := func(b buckets, pool ...string) redistest.State {
		return redistest.State{Pool: pool, Ready: queues{"old": {"r"}, "new": {"x"}}, Buckets: b}
	}
	rescheduled := redistest.State{Pool: []string{"x", "w"}, Ready: queues{"old": {"r1", "r2"}, "new": {"n"}}, Buckets: readyBuckets}
	changedQueue := redistest.State{Pool: []string{"w"}, Ready: queues{"old": {"r1", "r2"}, "new": {"n", "x"}}, Buckets: readyBuckets}

	cases := []struct {
		name   string
		seed   [][]command
		policy Policy
		delay  time.Duration // used unless at is set
		at     after
		want   redistest.State // on an error, the state of the seed
		due    any             // of x if it waits: relative to the seed (after) or the push (time.Duration), or a score
		err    error
	}{
		{name: "absent, replace", seed: absent, policy: Replace, delay: in30, want: waitsFirst(absentBuckets, "x", "w"), due: in30},
		{name: "absent, refuse", seed: absent, policy: Refuse, delay: in30, want: waitsFirst(absentBuckets, "x", "w"), due: in30},
		{name: "absent, no delay", seed: absent, policy: Replace, want: becomesReady(absentBuckets, "w")},
		{name: "absent, less than a millisecond", seed: absent, policy: Replace, delay: 1, want: waitsFirst(absentBuckets, "x", "w"), due: time.Millisecond},
		{name: "absent, at a time", seed: absent, policy: Replace, at: 45*second + after(250*time.Millisecond), want: waitsFirst(absentBuckets, "x", "w"), due: 45*second + after(250*time.Millisecond)},
		{name: "absent, at a time that is past", seed: absent, policy: Replace, at: -second, want: becomesReady(absentBuckets, "w")},

		{name: "waiting, replace, sooner", seed: waiting(60 * second), policy: Replace, delay: in30, want: waitsFirst(waitingBuckets, "x", "w", "z"), due: in30},
		{name: "waiting, replace, later", seed: waiting(60 * second), policy: Replace, delay: 90 * time.Second, want: waitsFirst(waitingBuckets, "w", "z", "x"), due: 90 * time.Second},
		{name: "waiting, refuse", seed: waiting(60 * second), policy: Refuse, delay: in30, err: ErrExists},
		{name: "waiting, earlier, sooner", seed: waiting(60 * second), policy: KeepEarlier, delay: in30, want: waitsFirst(waitingBuckets, "x", "w", "z"), due: in30},
		{name: "waiting, earlier, later", seed: waiting(60 * second), policy: KeepEarlier, delay: 90 * time.Second, want: waitsFirst(waitingBuckets, "w", "x", "z"), due: 60 * second},
		{name: "waiting, later, sooner", seed: waiting(60 * second), policy: KeepLater, delay: in30, want: waitsFirst(waitingBuckets, "w", "x", "z"), due: 60 * second},
		{name: "waiting, later, later", seed: waiting(60 * second), policy: KeepLater, delay: 90 * time.Second, want: waitsFirst(waitingBuckets, "w", "z", "x"), due: 90 * time.Second},
		{name: "waiting, later, sooner, with a fraction", seed: waiting(60*second + after(125*time.Millisecond)), policy: KeepLater, delay: in30, want: waitsFirst(waitingBuckets, "w", "x", "z"), due: 60*second + after(125*time.Millisecond)},
		{name: "waiting, replace, no delay", seed: waiting(60 * second), policy: Replace, want: becomesReady(waitingBuckets, "w", "z")},
		{name: "waiting, later, no delay", seed: waiting(60 * second), policy: KeepLater, want: waitsFirst(waitingBuckets, "w", "x", "z"), due: 60 * second},
		{name: "waiting, replace, at a time", seed: waiting(60 * second), policy: Replace, at: 45 * second, want: waitsFirst(waitingBuckets, "w", "x", "z"), due: 45 * second},
		{name: "due but not moved yet, later", seed: waiting(-5 * second), policy: KeepLater, delay: in30, want: waitsFirst(waitingBuckets, "x", "w", "z"), due: in30},
		{name: "due but not moved yet, earlier", seed: waiting(-5 * second), policy: KeepEarlier, delay: in30, want: becomesReady(waitingBuckets, "w", "z")},

		{name: "ready, replace", seed: isReady, policy: Replace, delay: in30, want: rescheduled, due: in30},
		{name: "ready, refuse", seed: isReady, policy: Refuse, delay: in30, err: ErrExists},
		{name: "ready, earlier", seed: isReady, policy: KeepEarlier, delay: in30, want: changedQueue},
		{name: "ready, later", seed: isReady, policy: KeepLater, delay: in30, want: rescheduled, due: in30},
		{name: "ready, replace, no delay", seed: isReady, policy: Replace, want: changedQueue},

		{name: "never due, earlier", seed: waiting("inf"), policy: KeepEarlier, delay: in30, want: waitsFirst(waitingBuckets, "x", "w", "z"), due: in30},
		{name: "never due, later", seed: waiting("inf"), policy: KeepLater, delay: in30, want: waitsFirst(waitingBuckets, "w", "z", "x"), due: 9007199254740.992},
		{name: "always due, earlier", seed: waiting("-inf"), policy: KeepEarlier, delay: in30, want: becomesReady(waitingBuckets, "w", "z")},
		{name: "always due, later", seed: waiting("-inf"), policy: KeepLater, delay: in30, want: waitsFirst(waitingBuckets, "x", "w", "z"), due: in30},

		{
			name: "bucket expired while it waited, refuse", policy: Refuse, delay: in30,
			seed: [][]command{{{"ZADD", "delayer:job_pool", 60 * second, "x"}}},
			want: redistest.State{Pool: []string{"x"}, Buckets: buckets{"x": "new new body"}}, due: in30,
		},
		{
			name: "bucket expired while it waited, no delay", policy: Replace,
			seed: [][]command{{{"ZADD", "delayer:job_pool", 60 * second, "x"}}},
			want: redistest.State{Ready: queues{"new": {"x"}}, Buckets: buckets{"x": "new new body"}},
		},
		{
			name: "bucket without a topic, later", policy: KeepLater, delay: in30,
			seed: [][]command{{{"ZADD", "delayer:job_pool", 60 * second, "x"}, {"HSET", "delayer:job_bucket:x", "body", "b"}}},
			want: redistest.State{Pool: []string{"x"}, Buckets: buckets{"x": "new new body"}}, due: in30,
		},
		{
			name: "ready in a broken queue, replace", policy: Replace, delay: in30,
			seed: [][]command{content("x", "old"), text("ready_queue:old")},
			want: redistest.State{Pool: []string{"x"}, Buckets: buckets{"x": "new new body"}, Other: buckets{"delayer:ready_queue:old": "string"}}, due: in30,
		},
		{
			name: "delayed into a broken queue", policy: Replace, delay: in30,
			seed: [][]command{text("ready_queue:new")},
			want: redistest.State{Pool: []string{"x"}, Buckets: buckets{"x": "new new body"}, Other: buckets{"delayer:ready_queue:new": "string"}}, due: in30,
		},
	}
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
					err = b.push(t.Context(), Job{ID: "x", Topic: "new", Body: "new body"}, when, pushedLifetime, c.policy)
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
				due, waiting := b.due(t, "x")
				if !waiting {
					pushed.expectAfter(t, "expiry", b.expiry(t, "x"), pushedLifetime)
					return
				}
				switch want := c.due.(type) {
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
			})
		}
	}, alone)
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

// monitor returns the commands that Redis runs during the call.
func (b *backend) monitor(t *testing.T, call func()) []string {
	t.Helper()
	redistest.NotExternal(t, "reads with MONITOR what others do, too")
	conn, err := b.pool.Dial(t.Context())
	check(t, err)
	check(t, errOf(conn.Do("MONITOR")))
	call()
	end := fmt.Sprint("the end of the call ", rand.Uint64()) // not of another test's
	b.do(t, "ECHO", end)
	var lines []string
	for {
		line, err := redis.String(conn.Receive())
		check(t, err)
		if strings.HasSuffix(line, `"`+end+`"`) {
			return lines
		}
		lines = append(lines, line)
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
		batch = append(batch, Delayed{Job{ID: id, Topic: "t", Body: "new"}, Due{After: time.Hour}, Terms{Lifetime: kept, Policy: Replace}, nil})
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

// Jobs that become ready are announced once per call and topic, with the length of the queue. TestOneWaiterIsWoken covers other calls.
func TestReadyIsAnnounced(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.seed(t, ready("r", "t"))
	var jobs []Delayed
	for _, id := range []string{"t1", "u1", "t2", "t3"} {
		jobs = append(jobs, Delayed{Job{ID: id, Topic: id[:1], Body: "b"}, Due{}, Terms{Lifetime: kept, Policy: Replace}, nil})
	}
	for _, topic := range []string{"t", "u"} {
		b.do(t, "ZADD", b.keys.Waiters(topic), 1, "of "+topic)
	}
	got := b.woken(t, func() { check(t, b.pushAll(t, jobs...)) })
	slices.Sort(got)
	if !slices.Equal(got, []string{"of t: 4 t", "of u: 1 u"}) {
		t.Errorf("woken: %q", got)
	}
}

// A job is announced if it is the next one due, and due soon. Of several jobs the first one due is announced, whatever their order. A
// rescheduled job is announced as well.
func TestNextDueIsAnnounced(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	push := func(delays ...time.Duration) func() error {
		var jobs []Delayed
		for i, delay := range delays {
			jobs = append(jobs, Delayed{Job{ID: fmt.Sprint(i), Topic: "t", Body: "b"}, Due{After: delay}, Terms{Lifetime: kept, Policy: Replace}, nil})
		}
		return func() error { return b.pushAll(t, jobs...) }
	}
	next := waits("w", "t", 40*second)
	for _, c := range []struct {
		name string
		seed []command
		call func() error
		want []string
	}{
		{"the next", next, push(30 * time.Second), []string{"30000"}},
		{"not the next", next, push(50 * time.Second), nil},
		{"at no time soon", nil, push(2 * time.Minute), nil},
		{"none of a batch soon", nil, push(2*time.Minute, 3*time.Minute), nil},
		{"the first of a batch", next, push(10*time.Second, 20*time.Second), []string{"10000"}},
		{"in the midst", next, push(20*time.Second, 10*time.Second, 30*time.Second, 0), []string{"10000"}},
		{"rescheduled", next, func() error { return b.Reschedule(t.Context(), "w", 15*time.Second) }, []string{"15000"}},
		{"rescheduled when ready", next, func() error { return b.Reschedule(t.Context(), "r", 15*time.Second) }, []string{"15000"}},
	} {
		b.seed(t, waits("overdue", "t", -5*second), ready("r", "t"), c.seed)
		if got := b.told(t, "delayer:first_due", func() { check(t, c.call()) }); !slices.Equal(got, c.want) {
			t.Errorf("%s: announced %q, want %q", c.name, got, c.want)
		}
	}
}

// pushAll stores the jobs in one call.
func (b *backend) pushAll(t *testing.T, jobs ...Delayed) error {
	return errorOf(b.PushAll(jobs).Do(t.Context()))
}

// pushed pushes a job and returns the outcome.
func (b *backend) pushed(t *testing.T, id string, delay time.Duration, policy Policy) (Outcome, error) {
	t.Helper()
	did := new(Told)
	errs := made(t, b.Push([]Delayed{{Job{ID: id, Topic: "t", Body: "b"}, Due{After: delay}, Terms{Lifetime: time.Hour, Policy: policy}, did}}))
	return did.Did, errs[0]
}

// Only one push per window counts, whatever happens to its job. Pushes without a window ignore the window.
func TestOnce(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		once := Once(time.Hour)
		expect := func(what string, id string, policy Policy, want Outcome) {
			t.Helper()
			did, err := b.pushed(t, id, 0, policy)
			var wantErr error
			if want == DidRefuse {
				wantErr = ErrExists
			}
			if did != want || !errors.Is(err, wantErr) {
				t.Errorf("%s: %v, %v, want %v, %v", what, did, err, want, wantErr)
			}
		}
		for what, end := range map[string]func(id string){
			"ready":    func(string) {},
			"popped":   func(string) { _, _, err := b.pop(t.Context(), []string{"t"}); check(t, err) },
			"reserved": func(string) { b.hold(t, "t", time.Hour) },
			"acked":    func(string) { held, _ := b.hold(t, "t", time.Hour); made(t, b.Ack([]LeaseRef{held})) },
			"dead":     func(string) { held, _ := b.hold(t, "t", time.Hour); made(t, b.Bury([]Burial{{held, "why", ""}})) },
			"expired":  func(id string) { b.do(t, "DEL", b.keys.JobBucket(id)) },
		} {
			b.do(t, "FLUSHALL")
			expect("first", "x", once, DidCreate)
			end("x")
			expect(what, "x", once, DidRefuse)
			was := b.state(t)
			expect(what+", again", "x", once, DidRefuse)
			b.expect(t, was)
			check(t, errOf(b.remove(t.Context(), "x")))
			expect("removed when "+what, "x", once, DidCreate)
		}
		expect("without a window", "x", Replace, DidReplace)
		expect("refused without a window", "y", Refuse, DidCreate)
		expect("of one that exists without a window", "y", once, DidRefuse)
		b.do(t, "DEL", b.keys.JobBucket("y"))
		expect("of one that had none", "y", once, DidCreate)

		// In a batch each push gets its own outcome, and none affects the others.
		told := make([]Told, 3)
		batch := []Delayed{
			{Job{ID: "x", Topic: "t", Body: "b"}, Due{}, Terms{Lifetime: time.Hour, Policy: once}, &told[0]},
			{Job{ID: "z", Topic: "t", Body: "b"}, Due{}, Terms{Lifetime: time.Hour, Policy: once}, &told[1]},
			{Job{ID: "y", Topic: "t", Body: "b"}, Due{}, Terms{Lifetime: time.Hour, Policy: Replace}, &told[2]},
		}
		errs := made(t, b.PushAll(batch))
		if want := []Told{{Did: DidRefuse}, {Did: DidCreate}, {Did: DidReplace}}; !slices.Equal(told, want) || errs[0] != ErrExists || errs[1] != nil || errs[2] != nil {
			t.Errorf("a batch: %v, %v, want %v", told, errs, want)
		}
		if got, want := b.state(t).Once, []string{"x", "y", "z"}; !slices.Equal(got, want) {
			t.Errorf("counted are %q, want %q", got, want)
		}
	}, alone)
}

// Windows that are over are removed, and the set itself expires after the last window.
func TestOnceIsForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		key := b.keys.Once()
		for i := range 25 {
			b.do(t, "ZADD", key, 1000+i, fmt.Sprint("old ", i))
		}
		if did, err := b.pushed(t, "old 3", 0, Once(time.Hour)); did != DidCreate || err != nil {
			t.Errorf("a window that is over: %v, %v", did, err)
		}
		if n := len(b.state(t).Once); n != 15 { // 25 less 10
			t.Errorf("there are %d, want 15", n)
		}
		for i, window := range []time.Duration{time.Minute, 2 * time.Hour} {
			check(t, errOf(b.pushed(t, fmt.Sprint("x", i), 0, Once(window))))
			kept := time.Duration(b.do(t, "PTTL", key).(int64)) * time.Millisecond
			if want := max(window, time.Hour); kept > want || kept < want-time.Minute {
				t.Errorf("after a window of %v the set is kept for %v, want %v", window, kept, want)
			}
		}
		if got, want := b.state(t).Once, []string{"old 3", "x0", "x1"}; !slices.Equal(got, want) {
			t.Errorf("counted are %q, want %q", got, want)
		}
	})
}

// A burst of pushes becomes one job, due at most the given time after the first push.
func TestDebounce(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		debounce := Debounce(100 * time.Second)
		from := 0.0
		ago := func(d time.Duration) { // sets the start of the burst
			from = b.clock(t)
			b.do(t, "HSET", b.keys.JobBucket("x"), "first", int64(from*1000)-d.Milliseconds())
		}
		expect := func(what string, policy Policy, want Outcome, due time.Duration) {
			t.Helper()
			var did Outcome
			span := b.timed(t, func() {
				var err error
				did, err = b.pushed(t, "x", 30*time.Second, policy)
				check(t, err)
			})
			at, waits := b.due(t, "x")
			if did != want || waits != (due > 0) || waits && (at < cmp.Or(from, span.from)+due.Seconds()-rounding || at > span.to+due.Seconds()+rounding) {
				t.Errorf("%s: %v, due at %v (%v), want %v, %v after %v", what, did, at, waits, want, due, span)
			}
			from = 0
		}
		expect("the first", debounce, DidCreate, 30*time.Second)
		expect("the next", debounce, DidReplace, 30*time.Second)
		ago(80 * time.Second)
		expect("a late one", debounce, DidReplace, 20*time.Second)
		ago(200 * time.Second)
		expect("one that is too late", debounce, DidReplace, 0)
		expect("when it is ready", debounce, DidReplace, 0)
		b.hold(t, "t", time.Hour)
		expect("when it is reserved", debounce, DidReplace, 30*time.Second)
		ago(200 * time.Second)
		expect("a push of another kind", Replace, DidReplace, 30*time.Second)
		expect("the first again", debounce, DidReplace, 30*time.Second)
		ago(0)
		expect("with a delay that is too long", Debounce(10*time.Second), DidReplace, 10*time.Second)
	})
}

// A push with Once may include a fingerprint. Then a push with a different fingerprint returns ErrReused.
func TestOnceAs(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		one, other := OnceAs(time.Hour, "one thing"), OnceAs(time.Hour, "other")
		group := func(id string, policy Policy) Delayed {
			d := toGroup("t", "k", "1", Group{Longest: time.Hour})
			d.ID, d.Policy = d.ID+id, policy
			return d
		}
		job := func(id string, policy Policy) Delayed {
			return Delayed{Job{ID: id, Topic: "t", Body: "b"}, Due{After: time.Hour}, Terms{Lifetime: time.Hour, Policy: policy}, new(Told)}
		}
		for name, push := range map[string]func(id string, policy Policy) error{
			"one": func(id string, policy Policy) error { return made(t, b.Push([]Delayed{job(id, policy)}))[0] },
			"many": func(id string, policy Policy) error {
				return made(t, b.PushAll([]Delayed{job("z", Replace), job(id, policy)}))[1]
			},
			"group": func(id string, policy Policy) error { return made(t, b.Push([]Delayed{group(id, policy)}))[0] },
		} {
			t.Run(name, func(t *testing.T) {
				b.seed(t)
				tag := ""
				if name == "group" {
					tag = GroupTag("t", "k")
				}
				expect := func(what string, got, want error) {
					t.Helper()
					if got != want {
						t.Errorf("%s: %v, want %v", what, got, want)
					}
				}
				expect("first", push("x", one), nil)
				was := b.state(t)
				expect("the same", push("x", one), ErrExists)
				expect("another", push("x", other), ErrReused)
				expect("one that does not say", push("x", Once(time.Hour)), ErrExists)
				b.expect(t, was)

				expect("of another ID", push("y", other), nil)
				b.do(t, "DEL", b.keys.OnceContent(tag+"y"))
				expect("after what it said was lost", push("y", one), ErrExists)
				b.do(t, "SET", b.keys.OnceContent(tag+"y"), "broken")
				expect("after that was broken", push("y", one), ErrExists)

				b.do(t, "ZREM", b.keys.Once(), tag+"x") // like Remove
				b.do(t, "DEL", b.keys.JobBucket("x"))
				expect("once it is free, one that does not say", push("x", Once(2*time.Hour)), nil)
				expect("which is compared with none before it", push("x", other), ErrExists)
			})
		}
		if errs := made(t, b.PushAll([]Delayed{job("x", other), job("new", one)})); errs[1] != nil {
			t.Errorf("one that is refused keeps back another: %v", errs)
		}
	})
}
