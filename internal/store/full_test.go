package store

import (
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// TestAtMaxmemory runs each script on a full Redis that evicts nothing: scripts that add data are refused and change nothing, scripts
// that move or remove data succeed.
func TestAtMaxmemory(t *testing.T) {
	t.Parallel()
	b, _ := onRedis(t, alone)
	ctx := t.Context()
	push := func(id string, delay time.Duration) func() error {
		return func() error {
			return b.push(ctx, Job{ID: id, Topic: "t", Body: strings.Repeat("new", 100)}, Due{After: delay}, kept, Replace)
		}
	}
	reschedule := func(id string, delay time.Duration) func() error {
		return func() error { return b.Reschedule(ctx, id, delay) }
	}
	pop := func() error { _, _, err := b.pop(ctx, []string{"t"}); return err }
	w, r, s, d := "t body of w", "t body of r", "t body of s", "t body of d"
	seed := [][]command{waits("w", "t", 60*second), waits("d", "t", -second), ready("r", "t"), ready("s", "t"), {{"ZADD", "delayer:job_pool", -second, "orphan"}}}
	for _, c := range []struct {
		name    string
		call    func() error
		refused bool
		want    redistest.State
	}{
		{name: "push anew", call: push("x", time.Second), refused: true},
		{name: "restore", call: func() error {
			return errOf(b.Restore([]Record{{Kind: RecordReady, ID: "n", TTL: time.Hour, Fields: map[string]string{"topic": "t"}}}, false).Do(ctx))
		}, refused: true},
		{name: "push anew, no delay", call: push("x", 0), refused: true},
		{name: "push of a waiting job", call: push("w", time.Second), refused: true},
		{name: "push of a waiting job, no delay", call: push("w", 0), refused: true},
		{name: "push of a ready job", call: push("r", time.Second), refused: true},
		{name: "push of a ready job, no delay", call: push("r", 0), refused: true},
		{name: "reschedule of a waiting job", call: reschedule("w", time.Second), refused: true},
		{name: "reschedule of a ready job", call: reschedule("r", time.Second), refused: true},
		{
			name: "reschedule, now", call: reschedule("w", 0),
			want: redistest.State{Pool: []string{"d", "orphan"}, Ready: queues{"t": {"r", "s", "w"}}, Buckets: buckets{"w": w, "d": d, "r": r, "s": s}},
		},
		{
			name: "remove of a waiting job", call: func() error { _, err := b.remove(ctx, "w"); return err },
			want: redistest.State{Pool: []string{"d", "orphan"}, Ready: queues{"t": {"r", "s"}}, Buckets: buckets{"d": d, "r": r, "s": s}},
		},
		{
			name: "remove of a ready job", call: func() error { _, err := b.remove(ctx, "r"); return err },
			want: redistest.State{Pool: []string{"d", "orphan", "w"}, Ready: queues{"t": {"s"}}, Buckets: buckets{"d": d, "w": w, "s": s}},
		},
		{
			name: "pop", call: pop,
			want: redistest.State{Pool: []string{"d", "orphan", "w"}, Ready: queues{"t": {"s"}}, Buckets: buckets{"w": w, "d": d, "s": s}},
		},
		{
			name: "get", call: func() error { _, err := b.Get(ctx, "w"); return err },
			want: redistest.State{Pool: []string{"d", "orphan", "w"}, Ready: queues{"t": {"r", "s"}}, Buckets: buckets{"w": w, "d": d, "r": r, "s": s}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b.do(t, "CONFIG", "SET", "maxmemory", 0)
			b.seed(t, seed...)
			was := b.state(t)
			scores, lifetimes := b.scores(t), b.expiry(t, "w")
			b.do(t, "CONFIG", "SET", "maxmemory", 1, "maxmemory-policy", "noeviction")
			err := c.call()
			b.do(t, "CONFIG", "SET", "maxmemory", 0)
			if !c.refused {
				if err != nil {
					t.Error(err)
				}
				b.expect(t, c.want)
				return
			}
			b.expectError(t, err, "OOM ")
			b.expect(t, was)
			for id, score := range b.scores(t) {
				if score != scores[id] {
					t.Errorf("score of %s is %s, was %s", id, score, scores[id])
				}
			}
			if moved := b.expiry(t, "w") - lifetimes; moved > rounding || moved < -rounding {
				t.Errorf("lifetime changed by %v s", moved)
			}
		})
	}
}
