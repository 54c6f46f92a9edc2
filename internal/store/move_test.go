package store

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redistest"
)

// found is a Lookup in a form that tests can compare.
type found struct {
	topics  map[string][]string
	order   []string // of the topics
	orphans []string
	due     int
}

func foundBy(look Lookup) found {
	f := found{orphans: look.Orphans.Strings(), due: look.Due}
	for _, batch := range look.Batches {
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
		next        any // time.Duration: exactly; after: the seed
	}{
		{"empty", nil, 9, 0, found{}, never},
		{"not yet", [][]command{waits("a", "t", 60*second), waits("b", "t", 50*second)}, 9, 0, found{}, 50 * second},
		{"one", [][]command{waits("a", "t", -second)}, 9, 0, found{topics{"t": {"a"}}, []string{"t"}, nil, 1}, never},
		{
			"in due order, whatever the score",
			[][]command{
				waits("f", "t", -second), waits("zero", "t", 0), waits("past", "t", "-5"), waits("e", "t", -2*second), waits("always", "t", "-inf"),
				waits("d", "t", -2*second-1e6), waits("soon", "t", 60*second+after(250*time.Millisecond)), waits("never", "t", "inf"),
			}, 9, 0, found{topics{"t": {"always", "past", "zero", "d", "e", "f"}}, []string{"t"}, nil, 6}, 60*second + after(250*time.Millisecond),
		},
		{"at the same time, by ID", [][]command{waits("b", "t", -second), waits("c", "t", -second), waits("a", "t", -second)}, 9, 0, found{topics{"t": {"a", "b", "c"}}, []string{"t"}, nil, 3}, never},
		{"never due", [][]command{waits("never", "t", "inf")}, 9, 0, found{}, time.Hour},
		{"far from due", [][]command{waits("far", "t", after(1000*time.Hour))}, 9, 0, found{}, time.Hour},
		{
			"by topic, the one that is due first first",
			[][]command{waits("a", "v", -5*second), waits("b", "t", -4*second), waits("c", "u", -3*second), waits("d", "v", -2*second), waits("e", "t", -second)}, 9, 0,
			found{topics{"v": {"a", "d"}, "t": {"b", "e"}, "u": {"c"}}, []string{"v", "t", "u"}, nil, 5}, never,
		},
		{
			"orphans",
			[][]command{
				waits("a", "t", -5*second), {{"ZADD", "delayer:job_pool", -4 * second, "no bucket"}}, waits("b", "t", -3*second),
				{{"ZADD", "delayer:job_pool", -2 * second, "no topic"}, {"HSET", "delayer:job_bucket:no topic", "body", "b"}},
				{{"ZADD", "delayer:job_pool", -second, "no hash"}}, text("job_bucket:no hash"),
				{{"ZADD", "delayer:job_pool", 60 * second, "not due"}},
			}, 9, 0, found{topics{"t": {"a", "b"}}, []string{"t"}, []string{"no bucket", "no topic", "no hash"}, 5}, 60 * second,
		},
		{"limit", tenDue, 3, 0, found{topics{"t": {"j0", "j1", "j2"}}, []string{"t"}, nil, 10}, 60 * second},
		{"limit and skip", tenDue, 3, 2, found{topics{"t": {"j2", "j3", "j4"}}, []string{"t"}, nil, 10}, 60 * second},
		{"skip all but one", tenDue, 3, 9, found{topics{"t": {"j9"}}, []string{"t"}, nil, 10}, 60 * second},
		{"skip all", tenDue, 3, 10, found{due: 10}, 60 * second},
		{"skip more than there are", tenDue, 3, 50, found{due: 10}, 60 * second},
		{"limit 0", tenDue, 0, 0, found{due: 10}, 60 * second},
	}
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				b.skipInfinite(t, c.seed)
				b.seed(t, c.seed...)
				was := b.state(t)
				var look Lookup
				var err error
				looked := b.timed(t, func() { look, err = b.Due(t.Context(), Look{Limit: c.limit, Skip: Counts{Backlog: c.skip}}) })
				if err != nil {
					t.Fatal(err)
				}
				got := foundBy(look)
				if len(got.orphans) == 0 {
					got.orphans = nil
				}
				if !reflect.DeepEqual(got, c.want) {
					t.Errorf("got  %+v\nwant %+v", got, c.want)
				}
				switch next := c.next.(type) {
				case time.Duration:
					if look.Next != next {
						t.Errorf("next in %v, want %v", look.Next, next)
					}
				case after: // by a clock that goes on, so not a microsecond before it is due
					at := b.base + time.Duration(next).Seconds()
					if look.Next.Seconds() < at-looked.to-2e-6 || look.Next.Seconds() > at-looked.from+2e-6 {
						t.Errorf("next in %v, want between %v and %v s", look.Next, at-looked.to, at-looked.from)
					}
				}
				b.expect(t, was)
			})
		}
		t.Run("wrong type of pool", func(t *testing.T) {
			b.seed(t, text("job_pool"))
			was := b.state(t)
			_, err := b.Due(t.Context(), Look{Limit: 9})
			b.expectError(t, err, "WRONGTYPE Operation against a key holding the wrong kind of value (job pool delayer:job_pool)")
			b.expect(t, was)
		})
	})
}

// Jobs that fell due since a time, by Redis's clock, have at most half of the
// places while the backlog fills the others.
func TestDueFresh(t *testing.T) {
	seed := [][]command{waits("later", "t", 60*second)}
	for n := range 10 {
		seed = append(seed, waits(fmt.Sprint("j", n), []string{"t", "u"}[n%2], after(n-20)*second))
	}
	fresh := func(topic string, ids ...string) Batch { b := batch(topic, ids...); b.Fresh = true; return b }
	between := -14*second - after(time.Second/2) // j5 and j6
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
				look, err := b.Due(t.Context(), Look{Limit: c.limit, Since: b.score(c.since), Skip: c.skip})
				if err != nil || look.Due != 10 || look.Looked != c.count || !reflect.DeepEqual(look.Batches, c.want) {
					t.Errorf("got %d due, looked at %+v, %v, %v\nwant 10, %+v, %v", look.Due, look.Looked, look.Batches, err, c.count, c.want)
				}
			})
		}
		now, err := b.Due(t.Context(), Look{})
		if err != nil {
			t.Fatal(err)
		}
		look, err := b.Due(t.Context(), Look{Limit: 9, Since: now.Now})
		if err != nil || look.Looked != (Counts{Backlog: 9}) {
			t.Errorf("since a look-up's own time: %+v, %v", look.Looked, err)
		}
	})
}

func batch(topic string, ids ...string) Batch {
	b := Batch{Topic: topic}
	for _, id := range ids {
		b.IDs = append(b.IDs, []byte(id))
	}
	return b
}

func TestMove(t *testing.T) {
	type queues = map[string][]string
	type buckets = map[string]string
	type moved struct {
		ids    []string
		left   int
		reason string
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
			"not those that left the pool or were postponed",
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
			"nobody", [][]command{waits("a", "t", -second)}, []Batch{batch("t", "gone")},
			[]moved{{left: 1}},
			redistest.State{Pool: []string{"a"}, Buckets: buckets{"a": "t body of a"}},
		},
		{
			"a broken queue among several",
			[][]command{waits("a", "t", -3*second), waits("b", "u", -2*second), waits("c", "v", -second), text("ready_queue:u")},
			[]Batch{batch("t", "a"), batch("u", "b"), batch("v", "c")},
			[]moved{{ids: []string{"a"}}, {reason: "WRONGTYPE ready queue delayer:ready_queue:u is a string, not a list"}, {ids: []string{"c"}}},
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
				results, err := b.Move(t.Context(), c.batches)
				if err != nil || len(results) != len(c.moved) {
					t.Fatal(results, err)
				}
				for i, want := range c.moved {
					got := results[i]
					if got.Topic != c.batches[i].Topic || !slices.Equal(got.IDs.Strings(), want.ids) || got.Left != want.left {
						t.Errorf("moved %q of %s and left %d, want %+v", got.IDs.Strings(), got.Topic, got.Left, want)
					}
					if want.reason != "" {
						b.expectError(t, got.Err, want.reason)
					} else if got.Err != nil {
						t.Error(got.Err)
					}
				}
				b.expect(t, c.want)
			})
		}
	})
}

// Lua's unpack fails near 8,000 values: a larger batch goes in chunks, and in
// order all the same, also when some of it stays.
func TestMoveLargeBatch(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range []struct{ jobs, postponed int }{ // each so-manieth
			{3999, 0}, {4000, 0}, {4001, 0}, {4001, 3}, {7999, 0}, {8000, 0}, {8001, 0}, {20000, 0}, {20000, 7}, {20000, 4000}, {8001, 1},
		} {
			if b.mini && c.jobs > 4001 {
				continue // takes it seconds
			}
			t.Run(fmt.Sprintf("%d, each %dth postponed", c.jobs, c.postponed), func(t *testing.T) {
				b.seed(t)
				all, want := Batch{Topic: "t"}, redistest.State{Ready: map[string][]string{}}
				for n := 1; n <= c.jobs; n++ {
					id, score := fmt.Sprint("job", n), n
					if c.postponed > 0 && n%c.postponed == 0 {
						score += 5000000000
						want.Pool = append(want.Pool, id)
					} else {
						want.Ready["t"] = append(want.Ready["t"], id)
					}
					all.IDs = append(all.IDs, []byte(id))
					b.conn.Send("ZADD", "delayer:job_pool", score, id)
				}
				b.do(t, "")
				results, err := b.Move(t.Context(), []Batch{all})
				if err != nil || results[0].Err != nil {
					t.Fatal(err, results[0].Err)
				}
				if got := results[0]; !slices.Equal(got.IDs.Strings(), want.Ready["t"]) || got.Left != len(want.Pool) {
					t.Errorf("moved %d and left %d, want %d and %d", len(got.IDs), got.Left, len(want.Ready["t"]), len(want.Pool))
				}
				b.expect(t, want)
			})
		}
	})
}

// forgetting is a connection on which Redis knows the move script for all
// batches but those at the given places, the first time.
type forgetting struct {
	redis.ConnWithContext
	unknown []int
	sent    *int
}

func (c forgetting) Send(command string, args ...any) error {
	*c.sent++
	if slices.Contains(c.unknown, *c.sent) {
		args[0] = "ffffffffffffffffffffffffffffffffffffffff"
	}
	return c.ConnWithContext.Send(command, args...)
}

// TestMoveScriptFlushed has Redis forget the script for some or all of a
// pipeline: each batch is moved, once, and results are those of their batches.
func TestMoveScriptFlushed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, unknown := range [][]int{{1}, {2}, {3}, {1, 3}, {1, 2, 3}} {
		t.Run(fmt.Sprint(unknown), func(t *testing.T) {
			sent := 0
			b := newBackend(t, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
				conn, err := redis.DialContext(ctx, "tcp", server.Addr)
				if err != nil {
					return nil, err
				}
				return forgetting{conn.(redis.ConnWithContext), unknown, &sent}, nil
			}})
			b.seed(t, waits("a", "t", -second), waits("b", "u", -second), waits("c", "v", -second), waits("d", "v", 60*second))
			b.do(t, "SCRIPT", "FLUSH")
			if len(unknown) < 3 { // known for the others
				if _, err := b.conn.Do("SCRIPT", "LOAD", moveScript.text); err != nil {
					t.Fatal(err)
				}
			}
			sent = 0
			results, err := b.Move(t.Context(), []Batch{batch("t", "a"), batch("u", "b"), batch("v", "c", "d")})
			if err != nil {
				t.Fatal(err)
			}
			want := []struct {
				topic string
				ids   []string
				left  int
			}{{"t", []string{"a"}, 0}, {"u", []string{"b"}, 0}, {"v", []string{"c"}, 1}}
			for i, w := range want {
				if got := results[i]; got.Err != nil || got.Topic != w.topic || !slices.Equal(got.IDs.Strings(), w.ids) || got.Left != w.left {
					t.Errorf("moved %q of %s, left %d, %v, want %+v", got.IDs.Strings(), got.Topic, got.Left, got.Err, w)
				}
			}
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
		dropped, err := b.Drop(t.Context(), batch("", "no bucket", "pushed anew", "no topic", "gone", "no hash").IDs)
		if want := []string{"no bucket", "no topic", "no hash"}; err != nil || !slices.Equal(dropped.Strings(), want) {
			t.Errorf("dropped %q, %v, want %q", dropped.Strings(), err, want)
		}
		b.expect(t, redistest.State{
			Pool:    []string{"other", "pushed anew"},
			Buckets: map[string]string{"pushed anew": "t body of pushed anew", "other": "t body of other", "no topic": " b"},
			Other:   map[string]string{"delayer:job_bucket:no hash": "string"},
		})
	})
}
