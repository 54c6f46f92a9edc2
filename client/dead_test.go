package client_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
)

// reserve reserves the topic's next job, for a minute.
func (f *fixture) reserve(topic string) *client.Delivery {
	f.t.Helper()
	d, err := f.Reserve(f.t.Context(), hangBound, time.Minute, topic)
	check(f.t, err)
	return d
}

// bury makes a dead letter of a new job.
func (f *fixture) bury(id, topic, reason string) {
	f.t.Helper()
	f.push(id, topic)
	check(f.t, f.reserve(topic).Bury(f.t.Context(), reason))
}

// seedDead seeds n dead letters of the topic, 0000, 0001 and so on, of which so many die
// in each millisecond.
func (f *fixture) seedDead(topic string, n, perMillisecond int) {
	f.t.Helper()
	f.do("EVAL", `for i = 0, ARGV[2] - 1 do
		local id, died = string.format('%04d', i), 1700000000000 + math.floor(i / ARGV[3])
		redis.call('HSET', 'delayer:dead_letter:' .. id, 'topic', ARGV[1], 'body', 'body', 'attempts', 1, 'reason', 'seeded', 'died', died)
		redis.call('ZADD', 'delayer:dead_letters:' .. ARGV[1], died, id)
		redis.call('ZADD', 'delayer:dead_topics', 'NX', died, ARGV[1])
	end`, 0, topic, n, perMillisecond)
}

// dead are the IDs of the topic's dead letters as Dead tells them.
func (f *fixture) dead(topic string) []string {
	f.t.Helper()
	var ids []string
	for d, err := range f.Dead(f.t.Context(), topic) {
		check(f.t, err)
		ids = append(ids, d.ID)
	}
	return ids
}

// Dead tells all there is to know, the newest first, and of this topic alone.
func TestDead(t *testing.T) {
	f := start(t)
	if ids := f.dead("t"); ids != nil {
		t.Errorf("dead letters out of nothing: %q", ids)
	}
	from := f.clock()
	f.bury("a", "t", "no such order")
	f.bury("other", "u", "x")
	f.push("b", "t")
	check(t, f.reserve("t").Retry(t.Context(), 0, client.Cause(errors.New("refused"))))
	check(t, f.reserve("t").Bury(t.Context(), "given up", client.Cause(errors.New("refused again"))))
	f.do("ZADD", "delayer:dead_letters:t", 1, "deleted by hand")
	var got []client.DeadLetter
	for d, err := range f.Dead(t.Context(), "t") {
		check(t, err)
		expectSpan(t, "death of "+d.ID, float64(d.Died.UnixMicro())/1e6, from, f.clock())
		d.Died = time.Time{}
		got = append(got, d)
	}
	want := []client.DeadLetter{
		{Message: client.Message{ID: "b", Topic: "t", Body: "body"}, Attempts: 2, Reason: "given up", Error: "refused again"},
		{Message: client.Message{ID: "a", Topic: "t", Body: "body"}, Attempts: 1, Reason: "no such order"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("dead letters:\n got %+v\nwant %+v", got, want)
	}
}

// Each dead letter comes once, whatever the pages, and however many died at one moment.
func TestDeadPages(t *testing.T) {
	f := start(t)
	for _, c := range []struct{ letters, perMillisecond int }{{99, 1}, {100, 1}, {101, 1}, {350, 1}, {350, 350}, {350, 7}} {
		f.do("FLUSHALL")
		f.seedDead("t", c.letters, c.perMillisecond)
		want := make([]string, c.letters)
		for n := range want {
			want[n] = fmt.Sprintf("%04d", c.letters-1-n)
		}
		if got := f.dead("t"); !slices.Equal(got, want) {
			t.Errorf("%d letters, %d a millisecond: got %q", c.letters, c.perMillisecond, got)
		}
	}
}

// Bodies of a megabyte don't come many at a time, but all do.
func TestDeadLargeBodies(t *testing.T) {
	f := start(t)
	const letters = 5
	for n := range letters {
		_, err := f.Push(t.Context(), client.Message{ID: fmt.Sprint(n), Topic: "t", Body: strings.Repeat("x", 1<<20)}, 0)
		check(t, err)
		check(t, f.reserve("t").Bury(t.Context(), "large"))
	}
	n := letters
	for d, err := range f.Dead(t.Context(), "t") {
		if n--; err != nil || d.ID != fmt.Sprint(n) || len(d.Body) != 1<<20 {
			t.Errorf("%s with %d bytes, %v", d.ID, len(d.Body), err)
		}
	}
	if n != 0 {
		t.Errorf("%d did not come", n)
	}
	if done, err := f.RequeueAll(t.Context(), "t"); done != letters || err != nil {
		t.Errorf("RequeueAll = %d, %v", done, err)
	}
}

// A loop over the dead letters may do with them what it likes: each comes once.
func TestDeadWhileTheyGo(t *testing.T) {
	const letters = 350
	for name, change := range map[string]func(f *fixture, id string, n int){
		"all are dropped": func(f *fixture, id string, n int) { f.dropDead("t", id) },
		"every second one is dropped": func(f *fixture, id string, n int) {
			if n%2 == 1 {
				f.dropDead("t", id)
			}
		},
		"every hundredth is dropped": func(f *fixture, id string, n int) {
			if n%100 == 99 {
				f.dropDead("t", id)
			}
		},
		"each is sent again and dies at once": func(f *fixture, id string, n int) {
			check(f.t, f.Requeue(f.t.Context(), id))
			check(f.t, f.reserve("t").Bury(f.t.Context(), "again"))
		},
	} {
		for _, perMillisecond := range []int{1, letters} {
			t.Run(fmt.Sprint(name, ", ", perMillisecond, " a millisecond"), func(t *testing.T) {
				f := start(t)
				f.seedDead("t", letters, perMillisecond)
				seen := map[string]bool{}
				n := 0
				for d, err := range f.Dead(t.Context(), "t") {
					check(t, err)
					if seen[d.ID] {
						t.Fatalf("%s comes again, after %d", d.ID, n)
					}
					seen[d.ID] = true
					change(f, d.ID, n)
					n++
				}
				if n != letters {
					t.Errorf("%d of %d came", n, letters)
				}
			})
		}
	}
}

func (f *fixture) dropDead(topic string, ids ...string) {
	f.t.Helper()
	if n, err := f.DropDead(f.t.Context(), topic, ids...); n != len(ids) || err != nil {
		f.t.Fatalf("DropDead of %q = %d, %v", ids, n, err)
	}
}

// An error ends the loop, and a loop that is left asks Redis no more.
func TestDeadEnds(t *testing.T) {
	f := start(t)
	f.seedDead("t", 150, 1)
	scripts := func() int { return f.info("commandstats", "cmdstat_evalsha:calls=") }
	f.dead("t")
	before := scripts()
	for range f.Dead(t.Context(), "t") {
		break
	}
	if n := scripts() - before; n != 1 {
		t.Errorf("%d pages were read for one letter", n)
	}
	f.do("SET", "delayer:dead_letters:broken", "x")
	n := 0
	for d, err := range f.Dead(t.Context(), "broken") {
		n++
		expectText(t, "Dead", err, `delayer: dead "broken": `, "WRONGTYPE")
		if d != (client.DeadLetter{}) {
			t.Errorf("got %+v", d)
		}
	}
	if n != 1 {
		t.Errorf("%d errors, want 1", n)
	}
}

// The ID of a dead letter is free: a new job and the dead letter know nothing of each other.
func TestDeadLetterAndJobOfOneID(t *testing.T) {
	f := start(t)
	f.bury("a", "t", "bad")
	f.push("a", "t")
	f.expect(state{Ready: queues{"t": {"a"}}, Buckets: buckets{"a": "t body"}, Dead: queues{"t": {"a"}}, Letters: buckets{"a": "t body"}})
	if job, err := f.Get(t.Context(), "a"); err != nil || job.State != client.Ready || job.Attempts != 0 || job.Reason != "" {
		t.Errorf("Get = %+v, %v, want the new job", job, err)
	}
	if err := f.Requeue(t.Context(), "a"); !errors.Is(err, client.ErrExists) {
		t.Errorf("Requeue: %v, want ErrExists", err)
	}
	if d := f.reserve("t"); d.ID != "a" || d.Attempt != 1 {
		t.Errorf("reserved %+v", d)
	} else if err := f.Requeue(t.Context(), "a"); !errors.Is(err, client.ErrExists) {
		t.Errorf("Requeue while it is reserved: %v, want ErrExists", err)
	} else if err := d.Ack(t.Context()); err != nil {
		t.Error(err)
	}
	f.expect(state{Dead: queues{"t": {"a"}}, Letters: buckets{"a": "t body"}})
	if err := f.Requeue(t.Context(), "a"); err != nil {
		t.Error(err)
	}
	f.expect(state{Ready: queues{"t": {"a"}}, Buckets: buckets{"a": "t body"}})
}

// A newer dead letter of an ID replaces the older one, of whatever topic that was.
func TestDeadLetterIsReplaced(t *testing.T) {
	for _, topic := range []string{"t", "u"} {
		f := start(t)
		f.push("a", "t")
		check(t, f.reserve("t").Bury(t.Context(), "old", client.Cause(errors.New("old"))))
		_, err := f.Push(t.Context(), client.Message{ID: "a", Topic: topic, Body: "new"}, 0)
		check(t, err)
		check(t, f.reserve(topic).Bury(t.Context(), "new"))
		f.expect(state{Dead: queues{topic: {"a"}}, Letters: buckets{"a": topic + " new"}})
		n := 0
		for d, err := range f.Dead(t.Context(), topic) {
			if n++; err != nil || d.Body != "new" || d.Reason != "new" || d.Error != "" {
				t.Errorf("%+v, %v", d, err)
			}
		}
		if n != 1 {
			t.Errorf("%d dead letters, want 1", n)
		}
	}
}

// A job that is requeued begins anew: with all its attempts, and without the errors of before.
func TestRequeue(t *testing.T) {
	f := start(t)
	m := client.Message{ID: "a", Topic: "t", Body: "body"}
	_, err := f.Push(t.Context(), m, 0, client.MaxAttempts(1), client.TTR(time.Hour))
	check(t, err)
	if err := f.reserve("t").Retry(t.Context(), 0, client.Cause(errors.New("refused"))); !errors.Is(err, client.ErrExhausted) {
		t.Fatalf("Retry: %v, want ErrExhausted", err)
	}
	for d, err := range f.Dead(t.Context(), "t") {
		if err != nil || d.Error != "refused" || d.Attempts != 1 || !strings.Contains(d.Reason, "1 attempts") {
			t.Errorf("%+v, %v", d, err)
		}
	}
	reserved := reserveLater(func() (*client.Delivery, error) { return f.Reserve(t.Context(), 0, 0, "t") })
	f.reserversWait(f.Client, "t", 1)
	check(t, f.Requeue(t.Context(), "a"))
	d := arrival(t, reserved).expect(t, "a") // woken by it
	if d.Attempt != 1 || d.MaxAttempts != 1 || d.Lease() != time.Hour {
		t.Errorf("delivered as %+v for %v", d, d.Lease())
	}
	job, err := f.Get(t.Context(), "a")
	if err != nil || job.Error != "" || job.Reason != "" || job.Message != m {
		t.Errorf("Get = %+v, %v", job, err)
	}
	if job.TTL < client.DefaultReadyMaxLifetime-hangBound {
		t.Errorf("kept for %v", job.TTL)
	}
	if err := f.Requeue(t.Context(), "unknown"); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("Requeue of no dead letter: %v, want ErrNotFound", err)
	}
	expectText(t, "Requeue", f.Requeue(t.Context(), ""), "delayer: requeue: invalid id: ")
}

// RequeueAll sends all, the oldest first, but for those of which there is a job: it names
// these, and they stay.
func TestRequeueAll(t *testing.T) {
	f := start(t)
	const letters = 250
	f.seedDead("t", letters, 3)
	if n, err := f.RequeueAll(t.Context(), "other"); n != 0 || err != nil {
		t.Errorf("RequeueAll of another topic = %d, %v", n, err)
	}
	kept := []string{"0000", "0001", "0099", "0100", "0249"}
	for _, id := range kept {
		f.push(id, "elsewhere")
	}
	f.do("ZADD", "delayer:dead_letters:t", 1, "deleted by hand")
	n, err := f.RequeueAll(t.Context(), "t")
	if n != letters-len(kept) || !errors.Is(err, client.ErrExists) {
		t.Errorf("RequeueAll = %d, %v, want %d, ErrExists", n, err, letters-len(kept))
	}
	for _, id := range kept {
		expectText(t, "RequeueAll", err, fmt.Sprintf("%q", id))
	}
	got := f.state()
	if !slices.Equal(got.Dead["t"], kept) || len(got.Letters) != len(kept) {
		t.Errorf("left are %q", got.Dead["t"])
	}
	if ids := got.Ready["t"]; !slices.IsSorted(ids) || len(ids) != n {
		t.Errorf("ready are %q", ids)
	}
}

// An error that is not a job's own ends RequeueAll.
func TestRequeueAllOfABrokenQueue(t *testing.T) {
	f := start(t)
	f.seedDead("t", 250, 1)
	f.do("SET", "delayer:ready_queue:t", "broken")
	n, err := f.RequeueAll(t.Context(), "t")
	if n != 0 {
		t.Errorf("%d were requeued", n)
	}
	expectText(t, "RequeueAll", err, "WRONGTYPE", "ready_queue:t")
	if got := f.state(); len(got.Dead["t"]) != 250 || len(got.Letters) != 250 || len(got.Buckets) != 0 {
		t.Errorf("%d are left, %d letters, %d buckets", len(got.Dead["t"]), len(got.Letters), len(got.Buckets))
	}
}

func TestDropDead(t *testing.T) {
	f := start(t)
	f.seedDead("t", 250, 5)
	f.bury("kept", "u", "bad")
	if n, err := f.DropDead(t.Context(), "t", "0000", "unknown", "kept", "0249", "0000"); n != 2 || err != nil {
		t.Errorf("DropDead of some = %d, %v, want 2", n, err)
	}
	if ids := f.dead("t"); len(ids) != 248 || ids[0] != "0248" || ids[247] != "0001" {
		t.Errorf("left are %q", ids)
	}
	if n, err := f.DropDead(t.Context(), "t"); n != 0 || err != nil {
		t.Errorf("without IDs: %d, %v", n, err)
	}
	if n, err := f.DropAllDead(t.Context(), "t"); n != 248 || err != nil {
		t.Errorf("DropDead of all = %d, %v, want 248", n, err)
	}
	if n, err := f.DropAllDead(t.Context(), "t"); n != 0 || err != nil {
		t.Errorf("DropDead of none = %d, %v", n, err)
	}
	f.expect(state{Dead: queues{"u": {"kept"}}, Letters: buckets{"kept": "u body"}})
}

// Get and Remove know dead letters; to Reschedule they are no jobs.
func TestDeadLetterByItsID(t *testing.T) {
	f := start(t)
	from := f.clock()
	f.bury("a", "t", "bad")
	job, err := f.Get(t.Context(), "a")
	if err != nil || job.State != client.Dead || job.Reason != "bad" || job.Attempts != 1 || job.TTL != -1 || job.Body != "body" {
		t.Errorf("Get = %+v, %v", job, err)
	}
	expectSpan(t, "death", float64(job.Due.UnixMicro())/1e6, from, f.clock())
	if err := f.Reschedule(t.Context(), "a", 0); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("Reschedule: %v, want ErrNotFound", err)
	}
	f.push("a", "t")
	for _, want := range []bool{true, true, false} { // the job, the dead letter, nothing
		if removed, err := f.Remove(t.Context(), "a"); removed != want || err != nil {
			t.Errorf("Remove = %v, %v, want %v", removed, err, want)
		}
	}
	f.expect(state{})
}
