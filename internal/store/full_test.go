package store

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// TestAtMaxmemory makes each call on a full Redis that evicts nothing: calls that add data are refused and change nothing. Calls that
// move or remove data do what they do on any Redis, also for a job with a limit and a follower.
func TestAtMaxmemory(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	ctx := t.Context()
	push := func(id string, delay time.Duration) func(LeaseRef) error {
		return func(LeaseRef) error {
			return b.push(ctx, Job{ID: id, Topic: "t", Body: strings.Repeat("new", 100)}, Due{After: delay}, kept, Replace)
		}
	}
	plain := func(call func() error) func(LeaseRef) error { return func(LeaseRef) error { return call() } }
	reschedule := func(id string, delay time.Duration) func(LeaseRef) error {
		return plain(func() error { return b.Reschedule(ctx, id, delay) })
	}
	remove := func(id string) func(LeaseRef) error { return plain(func() error { return errOf(b.remove(ctx, id)) }) }
	move := func(topic string) func(LeaseRef) error {
		return plain(func() error { return errOf(b.move(batch(topic, "d"))) })
	}
	refused := map[string]func(LeaseRef) error{
		"push anew": push("x", time.Second), "push anew, no delay": push("x", 0),
		"push of a waiting job": push("w", time.Second), "push of a waiting job, no delay": push("w", 0),
		"push of a ready job": push("r", time.Second), "push of a ready job, no delay": push("r", 0),
		"reschedule of a waiting job": reschedule("w", time.Second), "reschedule of a ready job": reschedule("r", time.Second),
		"push that follows": plain(func() error { return b.push(ctx, Job{ID: "h", Topic: "h", Body: "new"}, Due{}, kept, Follow) }),
		"restore": plain(func() error {
			return errOf(b.Restore([]Record{{Kind: RecordReady, ID: "n", TTL: time.Hour, Fields: map[string]string{"topic": "t"}}}, false).Do(ctx))
		}),
	}
	done := map[string]func(LeaseRef) error{
		"reschedule, now": reschedule("w", 0), "reschedule of a reserved job, now": reschedule("h", 0),
		"remove of a waiting job": remove("w"), "remove of a ready job": remove("r"), "remove of a reserved job": remove("h"),
		"move": move("t"), "move into a new queue": move("new"), "move into a broken queue": move("broken"),
		"due":                    plain(func() error { return errOf(b.dueJobs(Query{Limit: 9})) }),
		"drop":                   plain(func() error { return errOf(b.drop("orphan")) }),
		"pop":                    plain(func() error { _, _, err := b.pop(ctx, []string{"t"}); return err }),
		"get":                    plain(func() error { return errOf(b.Get(ctx, "w")) }),
		"reserve":                plain(func() error { return reserves(ctx, b.Store) }),
		"requeue":                plain(func() error { return errorOf(b.Requeue(ctx, []string{"dead"}, time.Hour)) }),
		"drop of a dead letter":  plain(func() error { return errOf(b.DropDead(ctx, "t", []string{"dead"}, time.Time{})) }),
		"expiry of dead letters": plain(func() error { _, _, err := b.ExpireDead(ctx, 0, 0, DeadPosition{}); return err }),
	}
	for verb := range settlements {
		done[verb] = func(held LeaseRef) error { return b.settleAs(t, verb, held) }
	}
	for _, special := range []bool{false, true} {
		for name, call := range refused {
			b.expectRefusedWhenFull(t, name, special, call)
		}
		for name, call := range done {
			b.expectDoneWhenFull(t, name, special, call)
		}
	}
}

func (b *backend) expectRefusedWhenFull(t *testing.T, name string, special bool, call func(LeaseRef) error) {
	t.Helper()
	held := b.seedForMaxmemory(t, special)
	was := b.dump(t)
	b.expectError(t, b.full(t, 1, func() error { return call(held) }), "OOM ")
	if is := b.dump(t); !maps.Equal(is, was) {
		t.Errorf("%s: it has changed\n%q to\n%q", name, was, is)
	}
}

func (b *backend) expectDoneWhenFull(t *testing.T, name string, special bool, call func(LeaseRef) error) {
	t.Helper()
	var states []redistest.State
	for _, most := range []int{0, 1} {
		held := b.seedForMaxmemory(t, special)
		if err := b.full(t, most, func() error { return call(held) }); err != nil {
			t.Errorf("%s, special %v, maxmemory %d: %v", name, special, most, err)
		}
		states = append(states, b.state(t))
	}
	if !reflect.DeepEqual(states[1], states[0]) {
		t.Errorf("%s, special %v: there is %+v, and without a maximum %+v", name, special, states[1], states[0])
	}
}

// seedForMaxmemory stores jobs in each state, and returns the lease of h. If that is special, it has a limit and a follower.
func (b *backend) seedForMaxmemory(t *testing.T, special bool) LeaseRef {
	t.Helper()
	b.seed(t, waits("w", "t", 60*second), waits("d", "t", -second), ready("r", "t"), ready("s", "t"), ready("h", "h"), text("ready_queue:broken"), []command{
		{"ZADD", "delayer:job_pool", -second, "orphan"},
		{"HSET", "delayer:dead_letter:dead", "topic", "t", "body", "body of dead"}, {"ZADD", "delayer:dead_letters:t", "1000", "dead"}, {"ZADD", "delayer:dead_topics", "1000", "t"},
	})
	if limit := (Limit{Concurrency: 2, Rate: 1e6, Burst: 10}); special {
		check(t, b.SetLimit(t.Context(), "h", limit, wholeShare(limit)))
	}
	held, _ := b.hold(t, "h", time.Minute)
	if special {
		check(t, b.push(t.Context(), Job{ID: "h", Topic: "h", Body: "follower"}, Due{}, time.Hour, Follow))
	}
	return held
}

// full makes the call with this maxmemory.
func (b *backend) full(t *testing.T, most int, call func() error) error {
	t.Helper()
	b.do(t, "CONFIG", "SET", "maxmemory", most, "maxmemory-policy", "noeviction")
	defer b.do(t, "CONFIG", "SET", "maxmemory", 0)
	return call()
}
