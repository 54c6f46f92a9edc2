package store

import (
	"cmp"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

func (b *backend) fire(t *testing.T, f Firing) Fired {
	t.Helper()
	fired, err := b.fireOne(t, b.Store, f)
	check(t, err)
	return fired
}

// fireOne fires a schedule as the given user.
func (b *backend) fireOne(t *testing.T, as *Store, f Firing) (Fired, error) {
	t.Helper()
	all, err := as.Fire([]Firing{f}, b.time(10*second), time.Second).Do(t.Context())
	if err != nil || len(all.Fired) != 1 {
		return Fired{}, cmp.Or(err, fmt.Errorf("it has fired %+v", all))
	}
	return all.Fired[0], nil
}

// ran is an occurrence with a job that is due at its time.
func ran(at time.Time) FiredOccurrence { return FiredOccurrence{at, OccurrenceRan, at} }

func TestFire(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t)
		due, next := b.time(-2*second), b.time(60*second)
		s := b.put(t, aSchedule("a"), due)
		job := OccurrenceID("a", due)
		f := Firing{Scheduled: s, Upcoming: next, Occurrences: []FiredOccurrence{ran(due)}}
		if fired := b.fire(t, f); fired != (Fired{Done: true, Ran: 1}) {
			t.Errorf("fired: %+v", fired)
		}
		want := redistest.State{Pool: []string{s.ID}, Ready: map[string][]string{"t": {job}}, Schedules: []string{"a"},
			Buckets: buckets{s.ID: "delayer:schedules @every 1m", job: "t body"}}
		b.expect(t, want)
		if life := b.With(t).Lifetimes(); life[job] < 6*24*time.Hour || life[job] > 7*24*time.Hour || life[s.ID] != -1 {
			t.Errorf("they live for %v", life)
		}
		s = b.scheduled(t, "a")
		if !s.Next.Equal(next) || !s.Due.Equal(next) || s.Ran != 1 || s.LastID != job || len(s.Past) != 1 || s.Past[0].What != OccurrenceRan || s.Past[0].Late < 2*time.Second {
			t.Errorf("then it is %+v", s)
		}
		for what, again := range map[string]Firing{"the same again": f, "one that is not due": {Scheduled: s, Upcoming: next, Occurrences: []FiredOccurrence{ran(next)}}} {
			if fired := b.fire(t, again); fired != (Fired{}) {
				t.Errorf("%s: %+v", what, fired)
			}
		}
		b.expect(t, want)
		b.do(t, "ZADD", "delayer:job_pool", b.score(-second), s.ID)
		stale := s
		check(t, b.PauseSchedule(t.Context(), "a", true))
		if fired := b.fire(t, Firing{Scheduled: stale, Upcoming: next, Occurrences: []FiredOccurrence{ran(next)}}); fired != (Fired{}) {
			t.Errorf("one that was paused meanwhile: %+v", fired)
		}
		s = b.scheduled(t, "a")
		if s.Paused.IsZero() {
			t.Error("it is not paused")
		}
		fired := b.fire(t, Firing{Scheduled: s, Upcoming: next, Paused: 12, Occurrences: []FiredOccurrence{{At: due, What: OccurrencePaused, Due: due}}})
		check(t, b.PauseSchedule(t.Context(), "a", false))
		if s = b.scheduled(t, "a"); fired != (Fired{Done: true}) || s.NotRun != (NotRun{Paused: 12}) || s.Past[1].What != OccurrencePaused || !s.Paused.IsZero() {
			t.Errorf("of one that is paused: %+v, %+v", fired, s)
		}
		b.do(t, "ZADD", "delayer:job_pool", b.score(-second), s.ID)
		past := b.do(t, "HGET", "delayer:job_bucket:"+s.ID, "past")
		b.fire(t, Firing{Scheduled: s, Upcoming: s.Next})
		if got := b.do(t, "HGET", "delayer:job_bucket:"+s.ID, "past"); !reflect.DeepEqual(got, past) {
			t.Errorf("one that was looked at too early remembers %q, want %q", got, past)
		}
	})
}

// Of several occurrences some have jobs, and one of the jobs waits for its jitter. The last occurrence ends the schedule.
func TestFireSeveral(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t)
		at := func(n int) time.Time { return b.time(after(n-20) * second) }
		s := aSchedule("a")
		s.MaxAttempts, s.TTR = 3, time.Minute
		put := b.put(t, s, at(0))
		var occurrences []FiredOccurrence
		for n := range 10 {
			occurrences = append(occurrences, FiredOccurrence{at(n), OccurrenceLate, at(n)})
		}
		occurrences = append(occurrences, ran(at(10)), FiredOccurrence{at(11), OccurrenceRan, at(81)})
		fired := b.fire(t, Firing{Scheduled: put, Late: 25, Occurrences: occurrences})
		got := b.scheduled(t, "a")
		if fired != (Fired{Done: true, Ran: 2}) || got.Ran != 2 || got.NotRun != (NotRun{Late: 25}) || len(got.Past) != 10 || !got.Next.IsZero() || !got.Due.IsZero() {
			t.Errorf("%+v, then %+v", fired, got)
		}
		if !got.Past[0].At.Equal(at(2)) || !got.Past[9].At.Equal(at(11)) || got.Past[8].What != OccurrenceRan || got.Past[7].What != OccurrenceLate {
			t.Errorf("the last ten: %v", got.Past)
		}
		if due, waits := b.due(t, OccurrenceID("a", at(11))); !waits || b.time(0).Add(61*time.Second).Unix() != int64(due) {
			t.Errorf("the job with jitter is due at %v", due)
		}
		job, err := b.Get(t.Context(), OccurrenceID("a", at(10)))
		if err != nil || job.MaxAttempts != 3 || job.TTR != time.Minute || job.State != "ready" {
			t.Errorf("the job: %+v, %v", job, err)
		}
		check(t, b.RemoveSchedule(t.Context(), "a", ""))
		if state := b.state(t); len(state.Buckets) != 2 || len(state.Schedules) != 0 || len(state.Pool) != 1 {
			t.Errorf("without the schedule its jobs stay: %+v", state)
		}
	})
}

// A job with jitter waits until it is due, even if less than a millisecond is left.
func TestJitterIsNeverEarly(t *testing.T) {
	t.Parallel()
	m := miniredis.RunT(t)
	b := newBackend(redistest.On(t, m.Addr()), redistest.On(t, m.Addr()).Pool())
	at := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	m.SetTime(at.Add(500 * time.Microsecond))
	put := b.put(t, aSchedule("a"), at)
	due := at.Add(time.Millisecond)
	b.fire(t, Firing{Scheduled: put, Upcoming: at.Add(time.Minute), Occurrences: []FiredOccurrence{{at, OccurrenceRan, due}}})
	if job, err := b.Get(t.Context(), OccurrenceID("a", at)); err != nil || job.State != "waiting" || !job.Due.Equal(due) {
		t.Errorf("half a millisecond before %v it is %+v, %v", due, job, err)
	}
	id, err := b.RunSchedule(t.Context(), "a")
	check(t, err)
	if job, err := b.Get(t.Context(), id); err != nil || job.State != "ready" {
		t.Errorf("the job that was wanted at once is %+v, %v", job, err)
	}
}

func TestFireOverlap(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t)
		s := aSchedule("a")
		s.Overlap = OverlapSkip
		put := b.put(t, s, b.time(-5*second))
		fire := func(offsets ...after) Fired {
			t.Helper()
			put = b.scheduled(t, "a")
			f := Firing{Scheduled: put, Upcoming: b.time(-second)}
			for _, offset := range offsets {
				f.Occurrences = append(f.Occurrences, ran(b.time(offset*second)))
			}
			return b.fire(t, f)
		}
		if fired := fire(-5, -4); fired.Ran != 1 || fired.Overlapped != 1 {
			t.Errorf("two at a time: %+v", fired)
		}
		if fired := fire(-3); fired.Ran != 0 || fired.Overlapped != 1 {
			t.Errorf("while its last job is ready: %+v", fired)
		}
		reserved := b.reserve(t, 1, Reservation{Lease: time.Minute}, "t")
		if fired := fire(-2); fired.Ran != 0 || fired.Overlapped != 1 {
			t.Errorf("while its last job is reserved: %+v", fired)
		}
		made(t, b.Ack([]LeaseRef{{"t", reserved.Jobs[0].ID, reserved.Leases[0].Token}}))
		if fired := fire(-1); fired.Ran != 1 || fired.Overlapped != 0 {
			t.Errorf("after its last job is done: %+v", fired)
		}
		if got := b.scheduled(t, "a"); got.Ran != 2 || got.NotRun != (NotRun{Overlapped: 3}) {
			t.Errorf("then it is %+v", got)
		}
	})
}

// If the last job has begun, an occurrence follows it, and the newest one wins. If it has not begun, it serves this occurrence too. So no
// two jobs run at a time, and one starts after each occurrence.
func TestFireFollow(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t)
		s := aSchedule("a")
		s.Overlap, s.MaxAttempts, s.TTR = OverlapFollow, 3, time.Minute
		b.put(t, s, b.time(-20*second))
		first := OccurrenceID("a", b.time(-20*second))
		ran, overlapped := 0, 0
		fire := func(what string, has int, followed string, offsets ...after) {
			t.Helper()
			f := Firing{Scheduled: b.scheduled(t, "a"), Upcoming: b.time(-second)}
			for _, offset := range offsets {
				f.Occurrences = append(f.Occurrences, FiredOccurrence{b.time(offset * second), OccurrenceRan, b.time(offset * second)})
			}
			want := Fired{Done: true, Ran: has, Overlapped: len(offsets) - has, Followed: followed}
			if fired := b.fire(t, f); fired != want {
				t.Errorf("%s: %+v, want %+v", what, fired, want)
			}
			ran, overlapped = ran+want.Ran, overlapped+want.Overlapped
			if got := b.scheduled(t, "a"); got.LastID != first || got.Ran != int64(ran) || got.NotRun != (NotRun{Overlapped: int64(overlapped)}) {
				t.Errorf("%s: then it is %+v", what, got)
			}
		}
		expectLast := func(what, state, body string, attempts int, followed bool) {
			t.Helper()
			job, err := b.Get(t.Context(), first)
			if err != nil || job.State != state || job.Body != body || job.Attempts != attempts || job.MaxAttempts != 3 || job.TTR != time.Minute || job.Followed != followed {
				t.Errorf("%s: it is %+v, %v", what, job, err)
			}
		}
		fire("two at a time", 1, "", -20, -19)
		fire("while it is ready", 0, "", -18)
		expectLast("nobody has begun it", "ready", "body", 0, false)
		held, _ := b.hold(t, "t", time.Minute)
		fire("while it is reserved", 1, first, -17, -16)
		expectLast("reserved", "reserved", "body", 1, true)
		s.Body = "newest"
		b.put(t, s, b.time(-second))
		fire("while it is followed", 0, first, -15)
		check(t, made(t, b.Retry([]Returned{{LeaseRef: held}}))[0])
		expectLast("tried again", "ready", "body", 1, true)
		fire("while it waits for its next attempt", 0, first, -14)
		held, _ = b.hold(t, "t", time.Minute)
		made(t, b.Ack([]LeaseRef{held}))
		expectLast("the follower", "ready", "newest", 0, false)
		held, _ = b.hold(t, "t", time.Minute)
		check(t, made(t, b.Retry([]Returned{{LeaseRef: held, Delay: time.Hour}}))[0])
		fire("while a failed one waits", 1, first, -13)
		expectLast("it has failed", "waiting", "newest", 1, true)
		check(t, b.Reschedule(t.Context(), first, 0))
		held, _ = b.hold(t, "t", time.Minute)
		made(t, b.Bury([]Burial{{held, "why", ""}}))
		expectLast("behind a dead letter", "ready", "newest", 0, false)
		held, _ = b.hold(t, "t", time.Minute)
		made(t, b.Ack([]LeaseRef{held}))
		first = OccurrenceID("a", b.time(-12*second))
		fire("when it is done", 1, "", -12)
		expectLast("the next one", "ready", "newest", 0, false)
	})
}

// A schedule that can't be fired is deferred and delays no other.
func TestFireRefused(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	for _, c := range []struct {
		what, why string
		prepare   func()
	}{
		{"a broken queue", "WRONGTYPE", func() { b.do(t, "SET", "delayer:ready_queue:t", "text") }},
		{"a full Redis", "OOM", func() { b.do(t, "CONFIG", "SET", "maxmemory", 1) }},
		{"nobody knows its occurrences", "", func() {}},
	} {
		b.seed(t)
		s := b.put(t, aSchedule("a"), b.time(-second))
		c.prepare()
		fired, err := b.fireOne(t, b.Store, Firing{Scheduled: s, Unknown: c.why == "", Upcoming: b.time(60 * second), Occurrences: []FiredOccurrence{ran(b.time(-second))}})
		b.do(t, "CONFIG", "SET", "maxmemory", 0)
		got := b.scheduled(t, "a")
		if err != nil || fired.Done || !got.Next.Equal(s.Next) || !got.Due.Equal(b.time(10*second)) || got.Revision != s.Revision || len(got.Past) > 0 {
			t.Errorf("%s: %+v, %v, then it is %+v", c.what, fired, err, got)
		}
		if c.why != "" {
			b.expectError(t, fired.Refused, c.why)
		}
	}
}

// Firing usually needs few commands, as there may be thousands of firings in a minute.
func TestFireCost(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.seed(t)
	at := func(n int) time.Time { return b.time(after(n-20) * second) }
	b.put(t, aSchedule("a"), at(0))
	for n := range 2 { // the first round loads the script
		s := b.scheduled(t, "a")
		b.do(t, "CONFIG", "RESETSTAT")
		b.fire(t, Firing{Scheduled: s, Upcoming: at(n + 1), Occurrences: []FiredOccurrence{ran(at(n))}})
	}
	const most = 18 // 14 of the script and PUBLISH, plus the call and the queries of this test
	if calls := b.Calls(); calls > most {
		t.Errorf("%d commands, want %d at most: %v", calls, most, b.AllCalls())
	}
}

// One call fires many schedules at a lower cost for each. An error of one schedule does not affect the others, a schedule listed twice is
// fired once, and schedules that the call has no time for are left to another call.
func TestFireMany(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	b.seed(t)
	const count = 60
	at, next := b.time(-second), b.time(60*second)
	b.do(t, "SET", "delayer:ready_queue:broken", "text")
	var firings []Firing
	var want []Fired
	state := redistest.State{Ready: map[string][]string{}, Buckets: map[string]string{}, Other: map[string]string{"delayer:ready_queue:broken": "string"}}
	for n := range count {
		s := aSchedule(fmt.Sprintf("s%02d", n))
		s.Topic = fmt.Sprint("t", n%2)
		fired := Fired{Done: true, Ran: 1}
		switch n {
		case 20:
			s.Topic = "broken"
		case 30:
			s.Overlap = OverlapFollow
		}
		put := b.put(t, s, at)
		firings = append(firings, Firing{Scheduled: put, Upcoming: next, Occurrences: []FiredOccurrence{ran(at)}})
		state.Schedules, state.Buckets[put.ID] = append(state.Schedules, s.Name), ScheduleTopic+" @every 1m"
		if n == 20 {
			fired = Fired{Refused: redis.Error("WRONGTYPE ready queue delayer:ready_queue:broken is a string, not a list")}
			state.Pool = append([]string{put.ID}, state.Pool...)
		} else {
			job := OccurrenceID(s.Name, at)
			state.Pool, state.Ready[s.Topic] = append(state.Pool, put.ID), append(state.Ready[s.Topic], job)
			state.Buckets[job] = s.Topic + " body"
		}
		want = append(want, fired)
	}
	firings, want = append(firings, firings[0]), append(want, Fired{})

	fired, err := b.Fire(firings, b.time(10*second), 0).Do(t.Context())
	if err != nil || len(fired.Fired) == 0 || len(fired.Fired) > 4 {
		t.Errorf("without any time: %+v, %v", fired, err)
	}
	done := len(fired.Fired)
	b.do(t, "CONFIG", "RESETSTAT")
	rest, err := b.Fire(firings[done:], b.time(10*second), time.Minute).Do(t.Context())
	const most = 6 // per schedule; fired alone, about 13
	if calls := b.Calls(); calls > most*count {
		t.Errorf("%d commands, want %d at most: %v", calls, most*count, b.AllCalls())
	}
	if got := append(fired.Fired, rest.Fired...); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("fired: %+v, %v, want %+v", got, err, want)
	}
	b.expect(t, state)
}
