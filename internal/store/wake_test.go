package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// woken returns the wake-ups during the call, as "waiter: message".
func (b *backend) woken(t *testing.T, call func()) (all []string) {
	t.Helper()
	for _, line := range b.monitor(t, call) {
		if _, told, ok := strings.Cut(line, `"PUBLISH" "`+b.keys.Wake("")); ok {
			all = append(all, strings.Replace(strings.TrimSuffix(told, `"`), `" "`, ": ", 1))
		}
	}
	return all
}

// wakeCase is a call while first and second wait for topic t.
type wakeCase struct {
	name   string
	seed   [][]command
	before func()
	call   func()
	want   string // message to the first, if any
}

func (b *backend) expectWakes(t *testing.T, cases ...wakeCase) {
	b.alive(t, "first", "second")
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b.seed(t, c.seed...)
			if c.before != nil {
				c.before()
			}
			b.stand(t, "t", "first", "second")
			var want []string
			left := []string{"first", "second"}
			if c.want != "" {
				want, left = []string{"first: " + c.want}, left[1:]
			}
			if got := b.woken(t, c.call); !slices.Equal(got, want) {
				t.Errorf("woken: %q, want %q", got, want)
			}
			if got := b.standing(t, "t"); !slices.Equal(got, left) {
				t.Errorf("still waiting: %q, want %q", got, left)
			}
		})
	}
}

// Each operation that makes a job ready wakes the longest-waiting client and no other.
func TestOneWaiterIsWoken(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	var held LeaseRef
	holds := func() { held, _ = b.hold(t, "t", time.Minute) }
	retry := func(r Returned) func() {
		return func() {
			r.LeaseRef = held
			made(t, b.Retry([]Returned{r}))
		}
	}
	push := func(jobs ...Delayed) func() {
		return func() {
			check(t, b.pushAll(t, jobs...))
		}
	}
	three := [][]command{ready("a", "t"), ready("b", "t"), ready("c", "t")}
	b.expectWakes(t,
		wakeCase{"push", nil, nil, push(aJob("a", "t", 0)), "1 t"},
		wakeCase{"push of several", [][]command{ready("z", "t")}, nil, push(aJob("a", "t", 0), aJob("b", "t", time.Hour), aJob("c", "t", 0)), "3 t"},
		wakeCase{"delayed push", nil, nil, push(aJob("a", "t", time.Hour)), ""},
		wakeCase{"delayed push of several", nil, nil, push(aJob("a", "t", time.Hour), aJob("b", "t", time.Hour)), ""},
		wakeCase{"move", [][]command{waits("a", "t", -second), waits("b", "t", -second)}, nil, func() { b.moveDue(t) }, "2 t"},
		wakeCase{"move that moves none", [][]command{waits("a", "t", 60*second)}, nil, func() { check(t, errOf(b.move(batch("t", "a", "gone")))) }, ""},
		wakeCase{"move of more than one chunk", nil, func() {
			b.do(t, "EVAL", "for i = 1, 3501 do redis.call('ZADD', KEYS[1], i, i) end", 1, "delayer:job_pool")
		}, func() {
			many := Batch{Topic: "t"}
			for i := range 3501 {
				many.IDs = append(many.IDs, []byte(fmt.Sprint(i+1)))
			}
			check(t, errOf(b.move(many)))
		}, "3501 t"},
		wakeCase{"move at once", [][]command{waits("a", "t", -second), waits("b", "t", -second)}, nil, func() {
			if d, err := b.dueJobs(Query{Limit: 9, AtOnce: 9, Retry: time.Now()}); err != nil || len(d.Moved) != 1 || !d.Moved[0].Woken {
				t.Errorf("%+v, %v", d, err)
			}
		}, "2 t"},
		wakeCase{"retry", three[:1], holds, retry(Returned{}), "1 t"},
		wakeCase{"delayed retry", three[:1], holds, retry(Returned{Delay: time.Hour}), ""},
		wakeCase{"last retry", three[:1], holds, retry(Returned{MaxAttempts: 1}), ""},
		wakeCase{"release", three[:2], holds, retry(Returned{Refund: true}), "2 t"},
		wakeCase{"ack", three[:2], holds, func() {
			made(t, b.Ack([]LeaseRef{held}))
		}, ""},
		wakeCase{"requeue", [][]command{letterD}, nil, func() {
			if errs, err := b.Requeue(t.Context(), []string{"d"}, kept); err != nil || errs[0] != nil {
				t.Error(errs, err)
			}
		}, "1 t"},
		wakeCase{"reschedule to now", [][]command{waits("a", "t", 60*second)}, nil, func() { b.Reschedule(t.Context(), "a", 0) }, "1 t"},
		wakeCase{"reschedule", [][]command{waits("a", "t", 60*second)}, nil, func() { b.Reschedule(t.Context(), "a", time.Hour) }, ""},
		wakeCase{"jobs that wait for nobody", nil, nil, func() { b.push(t.Context(), Job{ID: "a", Topic: "other", Body: "b"}, Due{}, kept, Replace) }, ""},
	)
}

// A call that leaves ready jobs behind wakes the longest-waiting client, unless it did not come to them.
func TestLeftJobsWakeAWaiter(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	take := func(how string, limits []int, n int, topics ...string) func() {
		return func() { b.take(t, how, Wanted{Topics: topics, Limits: limits, N: n}) }
	}
	three := [][]command{ready("a", "t"), ready("b", "t"), ready("c", "t")}
	b.expectWakes(t,
		wakeCase{"pop of a misrouted ID", [][]command{content("a", "t"), entry("a", "other")}, nil, take("pop", nil, 1, "other"), "1 t"},
		wakeCase{"reserve of a misrouted ID", [][]command{content("a", "t"), entry("a", "other")}, nil, take("reserve", nil, 1, "other"), "1 t"},
		wakeCase{"pop that leaves jobs", three, nil, take("pop", nil, 1, "t"), "2 t"},
		wakeCase{"reserve that leaves jobs", three, nil, take("reserve", nil, 1, "t"), "2 t"},
		wakeCase{"pop that leaves jobs beyond a limit", three, nil, take("pop", []int{1, 9}, 9, "t", "other"), "2 t"},
		wakeCase{"pop that leaves none", three, nil, take("pop", nil, 3, "t"), ""},
		wakeCase{"pop that did not come to it", append(three, ready("z", "other")), nil, take("pop", nil, 1, "other", "t"), ""},
		wakeCase{"pop that wants none of it", three, nil, take("pop", []int{0}, 1, "t"), ""},
		wakeCase{"pop that stops early", [][]command{ghosts("t", 1002)}, nil, take("pop", nil, 1, "t"), "2 t"},
		wakeCase{"purge that leaves jobs", three, nil, func() { b.Purge(t.Context(), "t", 1) }, ""},
		wakeCase{"purge", three, nil, func() { b.Purge(t.Context(), "t", 9) }, ""},
	)
}

// Dead waiters are skipped, a bounded number per call so that Redis is not blocked.
func TestDeadWaiters(t *testing.T) {
	t.Parallel()
	const most = 100
	b, _ := onRedis(t)
	b.alive(t, "first", "second")
	for _, dead := range []int{1, most - 1, most, 2*most + 1} {
		b.seed(t)
		var waiters []string
		for n := range dead {
			waiters = append(waiters, fmt.Sprint("dead", n))
		}
		b.stand(t, "t", append(waiters, "first", "second")...)
		for calls := dead/most + 1; calls > 0; calls-- {
			told := b.woken(t, func() { b.push(t.Context(), Job{ID: fmt.Sprint(calls), Topic: "t", Body: "b"}, Due{}, kept, Replace) })
			if calls > 1 {
				if len(told) != most || strings.Contains(strings.Join(told, ""), "first") {
					t.Errorf("%d dead: %d are told in one call: %q", dead, len(told), told)
				}
			} else if n := dead % most; len(told) != n+1 || !strings.HasPrefix(told[n], "first: ") {
				t.Errorf("%d dead: woken at last: %q", dead, told)
			}
		}
		if left := b.standing(t, "t"); !slices.Equal(left, []string{"second"}) {
			t.Errorf("%d dead: %q are left", dead, left)
		}
	}
	b.seed(t)
	b.stand(t, "t", "dead", "dead too")
	if err := b.push(t.Context(), Job{ID: "a", Topic: "t", Body: "b"}, Due{}, kept, Replace); err != nil || len(b.standing(t, "t")) > 0 {
		t.Errorf("all dead: %v, left are %q", err, b.standing(t, "t"))
	}
}

// If Redis refuses to wake a client, the job still becomes ready.
func TestWakingIsNoCondition(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.alive(t, "me")
	for _, denied := range []string{"-zpopmin", "-publish", "resetchannels"} {
		b.seed(t)
		b.stand(t, "t", "me")
		b.SetUser("~* &* +@all " + denied)
		if err := b.user().push(t.Context(), Job{ID: "a", Topic: "t", Body: "b"}, Due{}, kept, Replace); err != nil || len(b.With(t).Queue("t")) != 1 {
			t.Errorf("%s: %v, ready are %q", denied, err, b.With(t).Queue("t"))
		}
	}
	b.seed(t, text("waiters:t"))
	check(t, b.push(t.Context(), Job{ID: "a", Topic: "t", Body: "b"}, Due{}, kept, Replace))
}

// A client that was woken in vain wakes the next one, if there are jobs.
func TestSendWake(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	b.alive(t, "me")
	b.seed(t, text("ready_queue:broken"), ready("a", "two"), ready("b", "two"), ready("c", "one"), ready("d", "unasked"))
	for _, topic := range []string{"broken", "two", "one", "unasked", "empty"} {
		b.stand(t, topic, "me")
	}
	got := b.woken(t, func() {
		// Redis does not know the script yet.
		check(t, errOf(b.Wake([]string{"empty", "broken", "two", "nobody", "one"}).Do(t.Context())))
	})
	if want := []string{"me: 2 two", "me: 1 one"}; !slices.Equal(got, want) {
		t.Errorf("woken: %q, want %q", got, want)
	}
	for topic, n := range map[string]int{"broken": 1, "two": 0, "one": 0, "unasked": 1, "empty": 1} {
		if got := len(b.standing(t, topic)); got != n {
			t.Errorf("%d wait for %s, want %d", got, topic, n)
		}
	}
}

// A message contains the number of jobs and the topic, whatever its name. An invalid message counts as one job.
func TestReadWake(t *testing.T) {
	for message, want := range map[string]string{
		"3 t": "3 t", "1 a b\xff": "1 a b\xff", "12 ": "12 ", "0 t": "1 t", "-3 t": "1 t", "x t": "1 t", "": "1 ", "t": "1 ",
	} {
		topic, jobs := ReadWake([]byte(message))
		if got := fmt.Sprint(jobs, " ", topic); got != want {
			t.Errorf("%q is %q, want %q", message, got, want)
		}
	}
}

// A topic may have a zero byte, at which C ends a text; so may a limit's tag.
func TestZeroByte(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	const topic, inMonitor = "a\x00b", `me: 1 a\x00b`
	b.alive(t, "me")
	for _, set := range []string{b.keys.Waiters(topic), b.keys.ThrottledWaiters(topic)} {
		b.seed(t, ready("r", topic))
		b.do(t, "ZADD", set, 1, "me")
		if got := b.woken(t, func() { made(t, b.Wake([]string{topic})) }); !slices.Equal(got, []string{inMonitor}) {
			t.Errorf("%s: woken %q", set, got)
		}
	}
	limit := Limit{Concurrency: 5, Tag: topic}
	check(t, b.SetLimit(t.Context(), topic, limit, wholeShare(limit)))
	if got, err := b.Limit(t.Context(), topic); got != limit || err != nil {
		t.Errorf("the limit is %+v, %v, want %+v", got, err, limit)
	}
}

// One call finds as many dead waiters, and parks as many jobs of paused topics, whether they are of one topic or of many.
func TestDeadWaitersOfManyTopics(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t)
	const each = 60 // of three topics: more than one call finds
	var jobs []Delayed
	var held []LeaseRef
	for _, topic := range []string{"a", "b", "c"} {
		jobs = append(jobs, aJob("of "+topic, topic, 0))
	}
	stand := func(set func(string) string) {
		for _, job := range jobs {
			for n := range each {
				b.do(t, "ZADD", set(job.Topic), n, fmt.Sprint("dead", n))
			}
		}
	}
	for _, c := range []struct {
		name   string
		before func()
		call   func()
	}{
		{"waiting", func() { stand(b.keys.Waiters) }, func() { check(t, b.pushAll(t, jobs...)) }},
		{"throttled", func() {
			for _, job := range jobs {
				limit := Limit{Concurrency: 1}
				check(t, b.SetLimit(t.Context(), job.Topic, limit, wholeShare(limit)))
				check(t, b.push(t.Context(), job.Job, Due{}, kept, Replace))
				check(t, b.push(t.Context(), Job{ID: "more of " + job.Topic, Topic: job.Topic, Body: "b"}, Due{}, kept, Replace))
				one, _ := b.hold(t, job.Topic, time.Minute)
				held = append(held, one)
			}
			stand(b.keys.ThrottledWaiters)
		}, func() { made(t, b.Ack(held)) }},
	} {
		b.seed(t)
		c.before()
		if told := b.woken(t, c.call); len(told) != 100 {
			t.Errorf("%s: %d are told in one call", c.name, len(told))
		}
	}
	b.seed(t, ghosts("a", 800), ghosts("b", 800))
	for _, topic := range []string{"a", "b"} {
		b.do(t, "HSET", "delayer:paused", topic, "1 0 0 0 ")
		b.do(t, "HSET", b.keys.Waiters(topic), "paused", "1")
	}
	check(t, b.pushAll(t, jobs[:2]...))
	if parked := len(b.state(t).Paused["a"]) + len(b.state(t).Paused["b"]); parked != 1000 {
		t.Errorf("%d jobs are parked in one call", parked)
	}
}
