package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Pushes made before the connection broke do not count as replicated: nobody could ask. Nor do those made before the master changed.
func TestReplicasOfALostConnection(t *testing.T) {
	t.Parallel()
	_, server := onRedis(t, alone)
	cutter := redistest.StartCutter(t, server.Addr)
	pool := &redis.Pool{MaxIdle: 1, DialContext: func(ctx context.Context) (redis.Conn, error) { return redis.DialContext(ctx, "tcp", cutter.Addr) }}
	defer pool.Close()
	s := New(pool, DefaultPrefix)
	jobs := []Delayed{aJob("a", "t", time.Hour)}
	jobs[0].Replicas = Replicas{N: 1, Within: time.Millisecond}
	push := func(p *Pipeline) []error {
		errs, err := s.Push(jobs).On(t.Context(), p)
		check(t, err)
		return errs
	}
	for what, c := range map[string]struct {
		loses func(p *Pipeline)
		have  int
	}{
		"it stays": {func(*Pipeline) {}, 0},
		"it breaks": {func(p *Pipeline) {
			cutter.Arm(1, true)
			if err := errOf(s.Push(jobs).On(t.Context(), p)); KindOf(err) != NoAnswer {
				t.Errorf("error %v, want the network's", err)
			}
		}, -1},
		"it is another master's": {func(p *Pipeline) {
			server.Do("REPLICAOF", "127.0.0.1", "1")
			defer server.Do("REPLICAOF", "NO", "ONE")
			if err := errOf(s.Push(jobs).On(t.Context(), p)); !begins(err, "READONLY") {
				t.Errorf("error %v, want READONLY", err)
			}
		}, -1},
	} {
		t.Run(what, func(t *testing.T) {
			p, err := s.Pipeline(t.Context())
			check(t, err)
			defer p.Close()
			errs := push(p)
			c.loses(p)
			few := errors.New("too few")
			p.AwaitReplicas(t.Context(), func(_ Delayed, have int, err error) error {
				if have != c.have || (err != nil) != (have < 0) {
					t.Errorf("%d replicas have it, %v, want %d", have, err, c.have)
				}
				return few
			}, Pushed{jobs, errs})
			if errs[0] != few {
				t.Errorf("error %v, want that of too few", errs[0])
			}
		})
	}
}
