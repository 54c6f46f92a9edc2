package store

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

func (s *Store) dueJobs(q Query) (DueJobs, error) {
	return s.Due(q).Do(context.Background())
}

// move moves a batch as found now. Jobs that can't be moved are due again in an hour.
func (s *Store) move(b Batch) (Moved, error) {
	return s.Move(b, time.Now(), time.Now(), time.Now().Add(time.Hour)).Do(context.Background())
}

func (s *Store) drop(ids ...string) (Dropped, error) {
	return s.Drop(batch("", ids...).IDs, time.Now(), time.Now().Add(time.Hour)).Do(context.Background())
}

// found is a comparable form of DueJobs.
type found struct {
	topics  map[string][]string
	order   []string // topics in order
	orphans []string
	more    bool
}

func foundBy(jobs DueJobs) found {
	f := found{orphans: jobs.Orphans.Strings(), more: jobs.More}
	for _, batch := range jobs.Batches {
		if f.topics == nil {
			f.topics = map[string][]string{}
		}
		f.topics[batch.Topic] = batch.IDs.Strings()
		f.order = append(f.order, batch.Topic)
	}
	return f
}

func TestDue(t *testing.T) {
	never := time.Duration(-1)
	type topics = map[string][]string
	tenDue := func() (seeds [][]command) {
		for n := range 10 {
			seeds = append(seeds, waits(fmt.Sprint("j", n), "t", after(n-20)*second))
		}
		return append(seeds, waits("later", "t", 60*second))
	}()
	cases := []struct {
		name        string
		seed        [][]command
		limit, skip int
		want        found
		next        any // a time.Duration is exact, an after relative to the seed
	}{
		{"empty", nil, 9, 0, found{}, never},
		{"not yet", [][]command{waits("a", "t", 60*second), waits("b", "t", 50*second)}, 9, 0, found{}, 50 * second},
		{"one", [][]command{waits("a", "t", -second)}, 9, 0, found{topics{"t": {"a"}}, []string{"t"}, nil, false}, never},
		{
			"in due order, whatever the score",
			[][]command{
				waits("f", "t", -second), waits("zero", "t", 0), waits("past", "t", "-5"), waits("e", "t", -2*second), waits("always", "t", "-inf"),
				waits("d", "t", -2*second-1e6), waits("soon", "t", 60*second+after(250*time.Millisecond)), waits("never", "t", "inf"),
			}, 9, 0, found{topics{"t": {"always", "past", "zero", "d", "e", "f"}}, []string{"t"}, nil, false}, 60*second + after(250*time.Millisecond),
		},
		{"at the same time, by ID", [][]command{waits("b", "t", -second), waits("c", "t", -second), waits("a", "t", -second)}, 9, 0, found{topics{"t": {"a", "b", "c"}}, []string{"t"}, nil, false}, never},
		{"never due", [][]command{waits("never", "t", "inf")}, 9, 0, found{}, time.Hour},
		{"far from due", [][]command{waits("far", "t", after(1000*time.Hour))}, 9, 0, found{}, time.Hour},
		{
			"by topic, the one that is due first first",
			[][]command{waits("a", "v", -5*second), waits("b", "t", -4*second), waits("c", "u", -3*second), waits("d", "v", -2*second), waits("e", "t", -second)}, 9, 0,
			found{topics{"v": {"a", "d"}, "t": {"b", "e"}, "u": {"c"}}, []string{"v", "t", "u"}, nil, false}, never,
		},
		{
			"orphans",
			[][]command{
				waits("a", "t", -5*second), {{"ZADD", "delayer:job_pool", -4 * second, "no bucket"}}, waits("b", "t", -3*second),
				{{"ZADD", "delayer:job_pool", -2 * second, "no topic"}, {"HSET", "delayer:job_bucket:no topic", "body", "b"}},
				{{"ZADD", "delayer:job_pool", -second, "no hash"}}, text("job_bucket:no hash"),
				{{"ZADD", "delayer:job_pool", 60 * second, "not due"}},
			}, 9, 0, found{topics{"t": {"a", "b"}}, []string{"t"}, []string{"no bucket", "no topic", "no hash"}, false}, 60 * second,
		},
		{"limit", tenDue, 3, 0, found{topics{"t": {"j0", "j1", "j2"}}, []string{"t"}, nil, true}, 60 * second},
		{"limit and skip", tenDue, 3, 2, found{topics{"t": {"j2", "j3", "j4"}}, []string{"t"}, nil, true}, 60 * second},
		{"skip all", tenDue, 3, 10, found{}, 60 * second},
		{"limit 0", tenDue, 0, 0, found{more: true}, 60 * second},
	}
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				b.skipInfinite(t, c.seed)
				b.seed(t, c.seed...)
				was := b.state(t)
				var jobs DueJobs
				var err error
				asked := b.timed(t, func() { jobs, err = b.dueJobs(Query{Limit: c.limit, Skip: Counts{Backlog: c.skip}}) })
				check(t, err)
				got := foundBy(jobs)
				if len(got.orphans) == 0 {
					got.orphans = nil
				}
				if !reflect.DeepEqual(got, c.want) {
					t.Errorf("got  %+v\nwant %+v", got, c.want)
				}
				switch next := c.next.(type) {
				case time.Duration:
					if jobs.Next != next {
						t.Errorf("next in %v, want %v", jobs.Next, next)
					}
				case after: // relative to a running clock, but not a microsecond before the job is due
					at := b.base + time.Duration(next).Seconds()
					if jobs.Next.Seconds() < at-asked.to-2e-6 || jobs.Next.Seconds() > at-asked.from+2e-6 {
						t.Errorf("next in %v, want between %v and %v s", jobs.Next, at-asked.to, at-asked.from)
					}
				}
				b.expect(t, was)
			})
		}
		t.Run("wrong type of pool", func(t *testing.T) {
			due := func() error { return errOf(b.dueJobs(Query{Limit: 9})) }
			b.expectRefused(t, "WRONGTYPE Operation against a key holding the wrong kind of value (job pool delayer:job_pool)", due, text("job_pool"))
		})
	}, alone)
}

// Jobs that fell due since a time, by Redis's clock, get at most half of an answer; the backlog fills the rest.
func TestDueFresh(t *testing.T) {
	seed := [][]command{waits("later", "t", 60*second)}
	for n := range 10 {
		seed = append(seed, waits(fmt.Sprint("j", n), []string{"t", "u"}[n%2], after(n-20)*second))
	}
	fresh := func(topic string, ids ...string) Batch { b := batch(topic, ids...); b.Fresh = true; return b }
	between := -14*second - after(time.Second/2) // between j5 and j6
	cases := []struct {
		name  string
		limit int
		since after
		skip  Counts
		want  []Batch
		count Counts
	}{
		{"fresh ones first", 9, between, Counts{}, []Batch{fresh("t", "j6", "j8"), fresh("u", "j7", "j9"), batch("t", "j0", "j2", "j4"), batch("u", "j1", "j3")}, Counts{5, 4}},
		{"half each", 4, between, Counts{}, []Batch{fresh("t", "j6"), fresh("u", "j7"), batch("t", "j0"), batch("u", "j1")}, Counts{2, 2}},
		{"just due then", 4, -14 * second, Counts{}, []Batch{fresh("u", "j7"), fresh("t", "j8"), batch("t", "j0"), batch("u", "j1")}, Counts{2, 2}},
		{"passing over", 4, between, Counts{1, 2}, []Batch{fresh("t", "j8"), fresh("u", "j9"), batch("u", "j1"), batch("t", "j2")}, Counts{2, 2}},
		{"a backlog that leaves room", 4, between, Counts{5, 1}, []Batch{fresh("u", "j7", "j9"), fresh("t", "j8"), batch("u", "j5")}, Counts{1, 3}},
		{"no backlog left", 3, between, Counts{6, 0}, []Batch{fresh("t", "j6", "j8"), fresh("u", "j7")}, Counts{0, 3}},
		{"no fresh ones left", 3, between, Counts{0, 4}, []Batch{batch("t", "j0", "j2"), batch("u", "j1")}, Counts{3, 0}},
		{"all are fresh", 9, -100 * second, Counts{}, []Batch{fresh("t", "j0", "j2", "j4", "j6", "j8"), fresh("u", "j1", "j3", "j5", "j7")}, Counts{0, 9}},
		{"a time to come: all are backlog", 2, 100 * second, Counts{}, []Batch{batch("t", "j0"), batch("u", "j1")}, Counts{2, 0}},
	}
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t, seed...)
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				jobs, err := b.dueJobs(Query{Limit: c.limit, Since: b.time(c.since), Skip: c.skip})
				more := c.count.Plus(c.skip).Total() < 10
				if err != nil || jobs.More != more || jobs.Count != c.count || !reflect.DeepEqual(jobs.Batches, c.want) {
					t.Errorf("got %+v, %v, more: %v, %v\nwant %+v, %v, more: %v", jobs.Count, jobs.Batches, jobs.More, err, c.count, c.want, more)
				}
			})
		}
		now, err := b.dueJobs(Query{})
		check(t, err)
		jobs, err := b.dueJobs(Query{Limit: 9, Since: now.Now})
		if err != nil || jobs.Count != (Counts{Backlog: 9}) {
			t.Errorf("since an answer's own time: %+v, %v", jobs.Count, err)
		}
	})
}

// time returns the time at an offset from the seed.
func (b *backend) time(offset after) time.Time {
	return time.UnixMicro(int64(math.Round(b.base*1e6)) + time.Duration(offset).Microseconds())
}

// An answer has about 1 MiB of IDs, however long they are: half of it of each kind, and at least one of each.
func TestDueIsBoundedInBytes(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	b, _ := onRedis(t, alone)
	for _, c := range []struct {
		jobs, bytes int // due jobs of each kind, and the length of an ID
		want        Counts
	}{
		{300, 20, Counts{250, 250}},
		{300, 3000, Counts{175, 175}},
		{50, 100_000, Counts{6, 6}},
		{30, 1 << 20, Counts{1, 1}},
	} {
		b.seed(t)
		for n := range 2 * c.jobs {
			score := b.score(after(n/c.jobs)*10*second - 20*second)
			b.do(t, "EVAL", `local id = string.rep('x', ARGV[1] - 3) .. string.format('%03d', ARGV[2])
				redis.call('ZADD', KEYS[1], ARGV[3], id)
				redis.call('HSET', 'delayer:job_bucket:' .. id, 'topic', 't')`, 1, "delayer:job_pool", c.bytes, n, score)
		}
		jobs, err := b.dueJobs(Query{Limit: 500, Since: b.time(-15 * second)})
		if err != nil || jobs.Count != c.want || !jobs.More || len(jobs.Batches) != 2 || len(jobs.Batches[0].IDs) != c.want.Fresh || len(jobs.Batches[1].IDs) != c.want.Backlog {
			t.Errorf("%d jobs with IDs of %d bytes: %+v in %d batches, more: %v, %v, want %+v", 2*c.jobs, c.bytes, jobs.Count, len(jobs.Batches), jobs.More, err, c.want)
		}
	}
}

func batch(topic string, ids ...string) Batch {
	b := Batch{Topic: topic}
	for _, id := range ids {
		b.IDs = append(b.IDs, []byte(id))
	}
	return b
}

func TestMove(t *testing.T) {
	type moved struct {
		ids    []string
		left   int
		back   int    // put back
		reason string // part of the error
	}
	cases := []struct {
		name    string
		seed    [][]command
		batches []Batch
		moved   []moved
		want    redistest.State
	}{
		{
			"behind what is ready, in the order given",
			[][]command{waits("b", "t", -second), waits("a", "t", -2*second), waits("c", "t", 60*second), ready("r", "t")},
			[]Batch{batch("t", "a", "b")},
			[]moved{{ids: []string{"a", "b"}}},
			redistest.State{Pool: []string{"c"}, Ready: queues{"t": {"r", "a", "b"}}, Buckets: buckets{"a": "t body of a", "b": "t body of b", "c": "t body of c", "r": "t body of r"}},
		},
		{
			"not those that left the pool or were rescheduled",
			[][]command{waits("a", "t", -3*second), waits("b", "t", 60*second), waits("d", "t", -second), ready("r", "t")},
			[]Batch{batch("t", "gone", "a", "r", "b", "d", "gone too")},
			[]moved{{ids: []string{"a", "d"}, left: 4}},
			redistest.State{Pool: []string{"b"}, Ready: queues{"t": {"r", "a", "d"}}, Buckets: buckets{"a": "t body of a", "b": "t body of b", "d": "t body of d", "r": "t body of r"}},
		},
		{
			"any score that is due",
			[][]command{waits("a", "t", "-inf"), waits("b", "t", -7), waits("c", "t", 0), waits("d", "t", -second-1e6), waits("e", "t", "inf")},
			[]Batch{batch("t", "a", "b", "c", "d", "e")},
			[]moved{{ids: []string{"a", "b", "c", "d"}, left: 1}},
			redistest.State{Pool: []string{"e"}, Ready: queues{"t": {"a", "b", "c", "d"}}, Buckets: buckets{"a": "t body of a", "b": "t body of b", "c": "t body of c", "d": "t body of d", "e": "t body of e"}},
		},
		{
			"an ID that is named twice, once",
			[][]command{waits("a", "t", -3*second), waits("b", "t", 60*second), waits("c", "t", -second)},
			[]Batch{batch("t", "a", "b", "a", "gone", "c", "c", "a")},
			[]moved{{ids: []string{"a", "c"}, left: 5}},
			redistest.State{Pool: []string{"b"}, Ready: queues{"t": {"a", "c"}}, Buckets: buckets{"a": "t body of a", "b": "t body of b", "c": "t body of c"}},
		},
		{
			"a broken queue among several",
			[][]command{waits("a", "t", -3*second), waits("b", "u", -2*second), waits("c", "v", -second), text("ready_queue:u")},
			[]Batch{batch("t", "a"), batch("u", "b"), batch("v", "c")},
			[]moved{{ids: []string{"a"}}, {back: 1, reason: "WRONGTYPE Operation against a key holding the wrong kind of value (ready queue delayer:ready_queue:u)"}, {ids: []string{"c"}}},
			redistest.State{Pool: []string{"b"}, Ready: queues{"t": {"a"}, "v": {"c"}}, Buckets: buckets{"a": "t body of a", "b": "u body of b", "c": "v body of c"}, Other: buckets{"delayer:ready_queue:u": "string"}},
		},
		{
			"a broken pool", [][]command{ready("r", "t"), text("job_pool")},
			[]Batch{batch("t", "a")},
			[]moved{{reason: "WRONGTYPE "}},
			redistest.State{Ready: queues{"t": {"r"}}, Buckets: buckets{"r": "t body of r"}, Other: buckets{"delayer:job_pool": "string"}},
		},
	}
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				b.skipInfinite(t, c.seed)
				b.seed(t, c.seed...)
				for i, want := range c.moved {
					got, err := b.move(c.batches[i])
					if want.reason != "" && want.back == 0 {
						b.expectError(t, err, want.reason)
						continue
					}
					if err != nil || got.Topic != c.batches[i].Topic || !slices.Equal(got.IDs.Strings(), want.ids) || got.Skipped != want.left || got.PutBack != want.back {
						t.Errorf("moved %q of %s, left %d, put back %d, %v, want %+v", got.IDs.Strings(), got.Topic, got.Skipped, got.PutBack, err, want)
					}
					if want.back > 0 {
						b.expectError(t, got.Refused, want.reason)
					} else if got.Refused != nil || got.CantPublish != nil {
						t.Error(got.Refused, got.CantPublish)
					}
				}
				b.expect(t, c.want)
			})
		}
	}, alone)
}

// Lua's unpack fails near 8,000 values. A larger batch is moved in chunks and keeps its order, also if some jobs stay.
func TestMoveLargeBatch(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range []struct{ jobs, rescheduled int }{
			{3499, 0}, {3500, 0}, {3501, 0}, {3501, 3}, {7999, 0}, {8000, 0}, {8001, 0}, {20000, 0}, {20000, 7}, {20000, 3500}, {8001, 1},
		} {
			if b.Mini && c.jobs > 3501 {
				continue // too slow there
			}
			t.Run(fmt.Sprintf("%d, each %dth rescheduled", c.jobs, c.rescheduled), func(t *testing.T) {
				b.seed(t)
				all, want := Batch{Topic: "t"}, redistest.State{Ready: map[string][]string{}}
				for n := 1; n <= c.jobs; n++ {
					id, score := fmt.Sprint("job", n), n
					if c.rescheduled > 0 && n%c.rescheduled == 0 {
						score += 5000000000
						want.Pool = append(want.Pool, id)
					} else {
						want.Ready["t"] = append(want.Ready["t"], id)
					}
					all.IDs = append(all.IDs, []byte(id))
					b.Conn().Send("ZADD", "delayer:job_pool", score, id)
				}
				b.do(t, "")
				got, err := b.move(all)
				check(t, err)
				if !slices.Equal(got.IDs.Strings(), want.Ready["t"]) || got.Skipped != len(want.Pool) {
					t.Errorf("moved %d and left %d, want %d and %d", len(got.IDs), got.Skipped, len(want.Ready["t"]), len(want.Pool))
				}
				b.expect(t, want)
			})
		}
	}, alone)
}

// forgetting is a connection on which Redis does not know the script for the calls at the given positions, the first time.
type forgetting struct {
	redis.ConnWithContext
	unknown []int
	sent    *int
}

func (c forgetting) Send(command string, args ...any) error {
	*c.sent++
	if command == "EVALSHA" && slices.Contains(c.unknown, *c.sent) {
		args[0] = "ffffffffffffffffffffffffffffffffffffffff"
	}
	return c.ConnWithContext.Send(command, args...)
}

// TestMoveScriptFlushed makes Redis forget the script for some or all calls of a pipeline: each batch is moved once and gets its own
// results.
func TestMoveScriptFlushed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, unknown := range [][]int{{1}, {2}, {3}, {1, 3}, {1, 2, 3}} {
		t.Run(fmt.Sprint(unknown), func(t *testing.T) {
			sent := 0
			b := newBackend(server.Fixture, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
				conn, err := redis.DialContext(ctx, "tcp", server.Addr)
				if err != nil {
					return nil, err
				}
				return forgetting{conn.(redis.ConnWithContext), unknown, &sent}, nil
			}})
			b.seed(t, waits("a", "t", -second), waits("b", "u", -second), waits("c", "v", -second), waits("d", "v", 60*second))
			b.do(t, "SCRIPT", "FLUSH")
			if len(unknown) < 3 { // known to the others
				check(t, errOf(b.Conn().Do("SCRIPT", "LOAD", moveScript.plain().text)))
			}
			sent = 0
			p, err := b.Pipeline(t.Context())
			check(t, err)
			var answers []*Call[Moved]
			for _, batch := range []Batch{batch("t", "a"), batch("u", "b"), batch("v", "c", "d")} {
				answers = append(answers, b.Move(batch, time.Now(), time.Now(), time.Now()).Send(p))
			}
			want := []struct {
				topic string
				ids   []string
				left  int
			}{{"t", []string{"a"}, 0}, {"u", []string{"b"}, 0}, {"v", []string{"c"}, 1}}
			for i, w := range want {
				got, err := answers[i].Wait(t.Context())
				if err != nil || got.Topic != w.topic || !slices.Equal(got.IDs.Strings(), w.ids) || got.Skipped != w.left {
					t.Errorf("moved %q of %s, left %d, %v, want %+v", got.IDs.Strings(), got.Topic, got.Skipped, err, w)
				}
			}
			if p.InOrder() != slices.Equal(unknown, []int{3}) {
				t.Errorf("in order: %v", p.InOrder())
			}
			p.Close()
			b.expect(t, redistest.State{
				Pool: []string{"d"}, Ready: map[string][]string{"t": {"a"}, "u": {"b"}, "v": {"c"}},
				Buckets: map[string]string{"a": "t body of a", "b": "u body of b", "c": "v body of c", "d": "v body of d"},
			})
		})
	}
}

func TestDrop(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		b.seed(t,
			[]command{{"ZADD", "delayer:job_pool", -second, "no bucket"}, {"ZADD", "delayer:job_pool", -second, "no topic"}, {"ZADD", "delayer:job_pool", -second, "no hash"}},
			[]command{{"HSET", "delayer:job_bucket:no topic", "body", "b"}}, text("job_bucket:no hash"),
			waits("pushed anew", "t", -second), waits("other", "t", -second))
		dropped, err := b.drop("no bucket", "pushed anew", "no topic", "gone", "no hash", "no topic")
		if want := []string{"no bucket", "no topic", "no hash"}; err != nil || !slices.Equal(dropped.IDs.Strings(), want) || len(dropped.PutBack) > 0 || dropped.Refused != nil {
			t.Errorf("dropped %q, put back %q, %v, %v, want %q", dropped.IDs.Strings(), dropped.PutBack.Strings(), dropped.Refused, err, want)
		}
		b.expect(t, redistest.State{
			Pool:    []string{"other", "pushed anew"},
			Buckets: map[string]string{"pushed anew": "t body of pushed anew", "other": "t body of other", "no topic": " b"},
			Other:   map[string]string{"delayer:job_bucket:no hash": "string"},
		})
	})
}
