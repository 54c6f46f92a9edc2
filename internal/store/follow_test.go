package store

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// follow pushes a follower of x and returns the outcome. The follower is of another topic then, as only that of a schedule may be.
func (b *backend) follow(t *testing.T, delay time.Duration) Outcome {
	t.Helper()
	var told Told
	terms := Terms{Lifetime: 3 * time.Hour, Policy: Follow, MaxAttempts: 7, TTR: 9 * time.Second}
	errs := made(t, b.Push([]Delayed{{Job{ID: "x", Topic: "t", Body: "new"}, Due{After: delay}, terms, &told}}))
	check(t, errs[0])
	if told.Did == DidFollow {
		next, err := redis.String(b.do(t, "HGET", "delayer:job_bucket:x", "next"), nil)
		check(t, err)
		b.do(t, "HSET", "delayer:job_bucket:x", "next", strings.Replace(next, " 1 t", " 9 new topic", 1))
	}
	return told.Did
}

// heldX returns the lease of x, reserved in its last attempt.
func (b *backend) heldX(t *testing.T) LeaseRef {
	t.Helper()
	b.seed(t, ready("x", "t"), field("x", "options", "1 0 3600000"))
	held, _ := b.hold(t, "t", time.Hour)
	return held
}

// leaseIsOver ends the lease of x and makes x ready.
func (b *backend) leaseIsOver(t *testing.T) {
	t.Helper()
	b.do(t, "ZADD", "delayer:job_pool", "XX", "1700000000.000123", "x")
	b.moveDue(t)
}

// fields returns the names of a hash's fields.
func (b *backend) fields(t *testing.T, key string) string {
	t.Helper()
	fields, err := redis.StringMap(b.do(t, "HGETALL", key), nil)
	check(t, err)
	return fmt.Sprint(slices.Sorted(maps.Keys(fields)))
}

// ends are the ways in which a reserved job ends and its follower begins.
var ends = map[string]struct {
	over bool // the lease has expired before
	end  func(t *testing.T, b *backend, held LeaseRef)
	dies bool
}{
	"acked": {false, func(t *testing.T, b *backend, held LeaseRef) { check(t, made(t, b.Ack([]LeaseRef{held}))[0]) }, false},
	"buried": {false, func(t *testing.T, b *backend, held LeaseRef) {
		check(t, made(t, b.Bury([]Burial{{held, "why", ""}}))[0])
	}, true},
	"tried for the last time": {false, func(t *testing.T, b *backend, held LeaseRef) {
		if errs := made(t, b.Retry([]Returned{{LeaseRef: held}})); errs[0] != ErrExhausted {
			t.Errorf("retry: %v", errs[0])
		}
	}, true},
	"out of attempts": {true, func(t *testing.T, b *backend, held LeaseRef) {
		if got := b.reserve(t, 1, Reservation{}, "t"); len(got.Jobs) > 0 || len(got.Deferred) > 0 {
			t.Errorf("reserved %+v", got)
		}
	}, true},
	"popped": {true, func(t *testing.T, b *backend, held LeaseRef) {
		if job, stale, err := b.pop(t.Context(), []string{"t"}); job.Body != "body of x" || len(stale) > 0 || err != nil {
			t.Errorf("popped %+v, %v, %v", job, stale, err)
		}
	}, false},
}

// A follower replaces its reserved job when that ends, in whatever way. It has all options of its own push and none of the job's.
func TestFollow(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for name, c := range ends {
			for _, delay := range []time.Duration{0, time.Hour} {
				held := b.heldX(t)
				if did := b.follow(t, 5*time.Hour); did != DidFollow {
					t.Errorf("%s: the first: %v", name, did)
				}
				pushed := b.timed(t, func() {
					if did := b.follow(t, delay); did != DidFollow {
						t.Errorf("%s: the newest: %v", name, did)
					}
				})
				if job, err := b.Get(t.Context(), "x"); err != nil || job.State != "reserved" || job.Body != "body of x" || job.Token != held.Token || !job.Followed {
					t.Errorf("%s: followed, it is %+v, %v", name, job, err)
				}
				if c.over {
					b.leaseIsOver(t)
				}
				c.end(t, b, held)
				job, err := b.Get(t.Context(), "x")
				check(t, err)
				state := map[bool]string{true: "ready", false: "waiting"}[delay == 0]
				if !reflect.DeepEqual(job.Job, Job{ID: "x", Topic: "new topic", Body: "new"}) || job.State != state || job.Attempts != 0 || job.MaxAttempts != 7 || job.TTR != 9*time.Second || job.Followed {
					t.Errorf("%s: behind it is %+v", name, job)
				}
				at, waits := b.due(t, "x")
				if waits {
					pushed.expectAfter(t, name+": due", at, delay)
				}
				if left := job.TTL - delay; left > 3*time.Hour || left < 3*time.Hour-time.Minute {
					t.Errorf("%s: it is kept for %v behind its due time", name, left)
				}
				if got := b.fields(t, "delayer:job_bucket:x"); got != "[body options topic]" {
					t.Errorf("%s: its bucket has %s", name, got)
				}
				want := redistest.State{Buckets: map[string]string{"x": "new topic new"}}
				if waits {
					want.Pool = []string{"x"}
				} else {
					want.Ready = map[string][]string{"new topic": {"x"}}
				}
				if c.dies {
					want.Dead, want.Letters = map[string][]string{"t": {"x"}}, map[string]string{"x": "t body of x"}
					if got := b.fields(t, "delayer:dead_letter:x"); got != "[body died lease options reason topic]" {
						t.Errorf("%s: its letter has %s", name, got)
					}
				}
				b.expect(t, want)
			}
		}
	})
}

// A follower stays with its job through all attempts and leases, and keeps its own lifetime, however short the job's is.
func TestFollowerStays(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, ready("x", "t"), [][]command{{{"PEXPIRE", "delayer:job_bucket:x", 60000}}}[0])
		held, _ := b.hold(t, "t", time.Hour)
		b.follow(t, time.Hour)
		again := func() {
			t.Helper()
			held, _ = b.hold(t, "t", time.Hour)
		}
		for _, step := range []struct {
			name string
			do   func()
		}{
			{"extended", func() { made(t, b.Extend([]*Extension{{LeaseRef: held, Lease: 20 * time.Hour}})) }},
			{"tried again", func() { made(t, b.Retry([]Returned{{LeaseRef: held, Error: "e"}})) }},
			{"reserved again", again},
			{"released", func() { made(t, b.Retry([]Returned{{LeaseRef: held, Refund: true}})) }},
			{"reserved again", again},
			{"rescheduled", func() { check(t, b.Reschedule(t.Context(), "x", 0)) }},
			{"reserved again", again},
			{"its lease over", func() { b.leaseIsOver(t) }},
			{"reserved again", again},
		} {
			step.do()
			job, err := b.Get(t.Context(), "x")
			if err != nil || !job.Followed || job.Body != "body of x" || job.TTL < 4*time.Hour-time.Minute {
				t.Fatalf("%s: %+v, %v", step.name, job, err)
			}
		}
		made(t, b.Ack([]LeaseRef{held}))
		if job, err := b.Get(t.Context(), "x"); err != nil || job.Body != "new" {
			t.Errorf("in the end: %+v, %v", job, err)
		}
	})
}

// A follower marks the options of its job, and they are read as before: here by a pop, and by Get of the job and of its letter. Nothing of
// the mark is left when the letter is requeued.
func TestFollowerAndOptions(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, options := range []string{"", "3 9000 3600000", `3 9000 3600000 {"k":"v"}`} {
			get := func() JobInfo {
				t.Helper()
				job, err := b.Get(t.Context(), "x")
				check(t, err)
				return job
			}
			followed := func() (job JobInfo, held LeaseRef) {
				b.seed(t, ready("x", "t"))
				if options != "" {
					b.do(t, "HSET", "delayer:job_bucket:x", "options", options)
				}
				job = get()
				held, _ = b.hold(t, "t", time.Hour)
				b.follow(t, time.Hour)
				return job, held
			}
			same := func(when string, before JobInfo) {
				t.Helper()
				job := get()
				if !reflect.DeepEqual(job.Job, before.Job) || job.MaxAttempts != before.MaxAttempts || job.TTR != before.TTR {
					t.Errorf("%q %s: %+v, want %+v", options, when, job, before)
				}
			}
			before, _ := followed()
			same("followed", before)
			b.leaseIsOver(t)
			if job, _, err := b.pop(t.Context(), []string{"t"}); !reflect.DeepEqual(job, before.Job) || err != nil {
				t.Errorf("%q: popped %+v, %v, want %+v", options, job, err, before.Job)
			}
			b.expect(t, redistest.State{Pool: []string{"x"}, Buckets: map[string]string{"x": "new topic new"}})

			before, held := followed()
			check(t, made(t, b.Bury([]Burial{{held, "why", ""}}))[0])
			check(t, made(t, b.Remove(removals("x")))[0])
			same("buried", before)
			check(t, errOf(b.Requeue(t.Context(), []string{"x"}, time.Hour)))
			same("requeued", before)
			if text, _ := redis.String(b.do(t, "HGET", "delayer:job_bucket:x", "options"), nil); strings.HasPrefix(text, "+") {
				t.Errorf("%q: the options of the requeued letter are %q", options, text)
			}
		}
	})
}

// Only a job with a valid lease keeps its follower. Any other push and a removal delete the follower, too.
func TestNothingToFollow(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for name, c := range map[string]struct {
			seed [][]command
			want Outcome
		}{
			"none":             {nil, DidCreate},
			"waiting":          {[][]command{waits("x", "t", 60*second)}, DidReplace},
			"ready":            {[][]command{ready("x", "t")}, DidReplace},
			"a lease is over":  {[][]command{waits("x", "t", "1700000000.000123"), field("x", "lease", "1 5 0 0")}, DidReplace},
			"of no lease text": {[][]command{waits("x", "t", "4000000000.000123")}, DidReplace},
		} {
			b.seed(t, c.seed...)
			if did := b.follow(t, 0); did != c.want {
				t.Errorf("%s: %v, want %v", name, did, c.want)
			}
			b.expect(t, redistest.State{Ready: map[string][]string{"t": {"x"}}, Buckets: map[string]string{"x": "t new"}})
		}
		for name, end := range map[string]func(){
			"pushed":  func() { check(t, b.push(t.Context(), Job{ID: "x", Topic: "t", Body: "third"}, Due{}, kept, Replace)) },
			"removed": func() { _, err := b.remove(t.Context(), "x"); check(t, err) },
			"pushed by an old client": func() {
				b.do(t, "HSET", "delayer:job_bucket:x", "topic", "t", "body", "third")
				b.do(t, "EXPIRE", "delayer:job_bucket:x", 700000)
				b.do(t, "ZADD", "delayer:job_pool", "1700000000", "x")
				b.moveDue(t)
			},
		} {
			b.heldX(t)
			b.follow(t, 0)
			end()
			if job, _, _ := b.pop(t.Context(), []string{"t", "new topic"}); job.Body != "third" && name != "removed" {
				t.Errorf("%s: popped %+v", name, job)
			}
			b.With(t).Do("DEL", "delayer:reserved") // old clients do not count
			b.expect(t, redistest.State{})
		}
		held := b.heldX(t)
		b.follow(t, 0)
		b.do(t, "HSET", "delayer:job_bucket:x", "next", "what is this?")
		check(t, made(t, b.Ack([]LeaseRef{held}))[0])
		b.expect(t, redistest.State{})
	})
}

// Followers in a batch are stored like single ones, together with the other jobs of the batch.
func TestFollowInABatch(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, ready("x", "t"), ready("y", "t"), ready("z", "t"))
		held := b.reserve(t, 2, Reservation{Lease: time.Hour}, "t")
		told := make([]Told, 4)
		var batch []Delayed
		for i, id := range []string{"x", "z", "y", "w"} {
			batch = append(batch, Delayed{Job{ID: id, Topic: "t", Body: "new " + id}, Due{After: time.Duration(i%2) * time.Hour}, Terms{Lifetime: kept, Policy: Follow}, &told[i]})
		}
		made(t, b.PushAll(batch))
		if want := []Told{{Did: DidFollow}, {Did: DidReplace}, {Did: DidFollow}, {Did: DidCreate}}; !slices.Equal(told, want) {
			t.Errorf("did %v, want %v", told, want)
		}
		var list []LeaseRef
		for i, job := range held.Jobs {
			list = append(list, LeaseRef{job.Topic, job.ID, held.Leases[i].Token})
		}
		made(t, b.Ack(list))
		b.expect(t, redistest.State{Pool: []string{"w", "z"}, Ready: map[string][]string{"t": {"x", "y"}},
			Buckets: map[string]string{"x": "t new x", "y": "t new y", "z": "t new z", "w": "t new w"}})
	})
}

// An ID with two entries in a queue is delivered once and has one follower.
func TestFollowedTwiceInAQueue(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, n := range []int{1, 5} {
			b.heldX(t)
			b.follow(t, 0)
			b.leaseIsOver(t)
			b.do(t, "RPUSH", "delayer:ready_queue:t", "x", "x")
			got := made(t, b.Pop(Wanted{Topics: []string{"t"}, N: n}))
			if len(got.Jobs) != 1 || got.Jobs[0].Body != "body of x" {
				t.Errorf("popped %+v", got.Jobs)
			}
			if job, err := b.Get(t.Context(), "x"); err != nil || job.Body != "new" {
				t.Errorf("behind it is %+v, %v", job, err)
			}
		}
	})
}

// At maxmemory jobs still end and their followers begin.
func TestFollowAtMaxmemory(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	for name, c := range ends {
		held := b.heldX(t)
		b.follow(t, 0)
		if c.over {
			b.leaseIsOver(t)
		}
		b.do(t, "CONFIG", "SET", "maxmemory", "1")
		c.end(t, b, held)
		if job, err := b.Get(t.Context(), "x"); err != nil || job.Body != "new" {
			t.Errorf("%s: behind it is %+v, %v", name, job, err)
		}
		b.do(t, "CONFIG", "SET", "maxmemory", "0")
	}
}

// A ready follower is announced to consumers, a waiting one to servers.
func TestFollowerIsAnnounced(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	for delay, want := range map[time.Duration]string{0: "[1 new topic]", 10 * time.Second: "[]"} {
		held := b.heldX(t)
		b.follow(t, delay)
		b.do(t, "ZADD", b.keys.Waiters("new topic"), 1, "c")
		lines := b.monitor(t, func() { made(t, b.Ack([]LeaseRef{held})) })
		var woken, announced []string
		for _, line := range lines {
			woken = append(woken, published(line, "delayer:wake:c")...)
			announced = append(announced, published(line, "delayer:first_due")...)
		}
		if fmt.Sprint(woken) != want || (len(announced) == 1) != (delay > 0) {
			t.Errorf("with a delay of %v consumers are told %q, servers %q", delay, woken, announced)
		}
	}
}
