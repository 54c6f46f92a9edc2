package store

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// move moves a batch as found now. Jobs that can't be moved are due again in an hour.
func (s *Store) move(b Batch) (Moved, error) {
	return s.Move(b, time.Now(), time.Now(), time.Now().Add(time.Hour)).Do(context.Background())
}

func (s *Store) drop(ids ...string) (Dropped, error) {
	return s.Drop(batch("", ids...).IDs, time.Now(), time.Now().Add(time.Hour)).Do(context.Background())
}

func batch(topic string, ids ...string) Batch {
	b := Batch{Topic: topic}
	for _, id := range ids {
		b.IDs = append(b.IDs, []byte(id))
	}
	return b
}

type moveResult struct {
	ids    []string
	left   int
	back   int    // put back
	reason string // part of the error
}

var moveCases = []struct {
	name    string
	seed    [][]command
	batches []Batch
	moved   []moveResult
	want    redistest.State
}{
	{
		"behind what is ready, in the order given",
		[][]command{waits("b", "t", -second), waits("a", "t", -2*second), waits("c", "t", 60*second), ready("r", "t")},
		[]Batch{batch("t", "a", "b")},
		[]moveResult{{ids: []string{"a", "b"}}},
		redistest.State{Pool: []string{"c"}, Ready: queues{"t": {"r", "a", "b"}}, Buckets: buckets{"a": "t body of a", "b": "t body of b", "c": "t body of c", "r": "t body of r"}},
	},
	{
		"not those that left the pool or were rescheduled",
		[][]command{waits("a", "t", -3*second), waits("b", "t", 60*second), waits("d", "t", -second), ready("r", "t")},
		[]Batch{batch("t", "gone", "a", "r", "b", "d", "gone too")},
		[]moveResult{{ids: []string{"a", "d"}, left: 4}},
		redistest.State{Pool: []string{"b"}, Ready: queues{"t": {"r", "a", "d"}}, Buckets: buckets{"a": "t body of a", "b": "t body of b", "d": "t body of d", "r": "t body of r"}},
	},
	{
		"any score that is due",
		[][]command{waits("a", "t", "-inf"), waits("b", "t", -7), waits("c", "t", 0), waits("d", "t", -second-1e6), waits("e", "t", "inf")},
		[]Batch{batch("t", "a", "b", "c", "d", "e")},
		[]moveResult{{ids: []string{"a", "b", "c", "d"}, left: 1}},
		redistest.State{Pool: []string{"e"}, Ready: queues{"t": {"a", "b", "c", "d"}}, Buckets: buckets{"a": "t body of a", "b": "t body of b", "c": "t body of c", "d": "t body of d", "e": "t body of e"}},
	},
	{
		"an ID that is named twice, once",
		[][]command{waits("a", "t", -3*second), waits("b", "t", 60*second), waits("c", "t", -second)},
		[]Batch{batch("t", "a", "b", "a", "gone", "c", "c", "a")},
		[]moveResult{{ids: []string{"a", "c"}, left: 5}},
		redistest.State{Pool: []string{"b"}, Ready: queues{"t": {"a", "c"}}, Buckets: buckets{"a": "t body of a", "b": "t body of b", "c": "t body of c"}},
	},
	{
		"a broken queue among several",
		[][]command{waits("a", "t", -3*second), waits("b", "u", -2*second), waits("c", "v", -second), text("ready_queue:u")},
		[]Batch{batch("t", "a"), batch("u", "b"), batch("v", "c")},
		[]moveResult{{ids: []string{"a"}}, {back: 1, reason: "WRONGTYPE Operation against a key holding the wrong kind of value (ready queue delayer:ready_queue:u)"}, {ids: []string{"c"}}},
		redistest.State{Pool: []string{"b"}, Ready: queues{"t": {"a"}, "v": {"c"}}, Buckets: buckets{"a": "t body of a", "b": "u body of b", "c": "v body of c"}, Other: buckets{"delayer:ready_queue:u": "string"}},
	},
	{
		"a broken pool", [][]command{ready("r", "t"), text("job_pool")},
		[]Batch{batch("t", "a")},
		[]moveResult{{reason: "WRONGTYPE "}},
		redistest.State{Ready: queues{"t": {"r"}}, Buckets: buckets{"r": "t body of r"}, Other: buckets{"delayer:job_pool": "string"}},
	},
}

func TestMove(t *testing.T) {
	onEach(t, func(t *testing.T, b *backend) {
		for _, c := range moveCases {
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
