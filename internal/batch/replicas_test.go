package batch

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Pushes made before the connection broke do not count as replicated: nobody could ask.
func TestBrokenBeforeReplicasAreAwaited(t *testing.T) {
	t.Parallel()
	cutter := redistest.StartCutter(t, redistest.Start(t).Addr)
	pool := &redis.Pool{MaxIdle: 1, DialContext: func(ctx context.Context) (redis.Conn, error) { return redis.DialContext(ctx, "tcp", cutter.Addr) }}
	defer pool.Close()
	partitions := partitionsOn(pool, 2)
	b := NewBatcher(&Owner{Running: new(sync.WaitGroup)}, Kind[store.Delayed]{
		Measure: func(job store.Delayed) (string, int) { return job.ID, 0 },
		Call:    (*store.Store).Push,
		Behind: func(ctx context.Context, p *store.Pipeline, jobs []store.Delayed, errs []error) {
			p.AwaitReplicas(ctx, store.Pushed{Jobs: jobs, Errs: errs})
		},
	})
	// push pushes a job to each partition, in one round trip.
	push := func() (errs []error) {
		var l *line[store.Delayed]
		var callers []*caller[store.Delayed]
		b.mu.Lock()
		for _, s := range partitions {
			c := b.callers.Get().(*caller[store.Delayed])
			c.store = s
			c.item = store.Delayed{Job: store.Job{ID: s.Keys().JobPool(), Topic: "t", Body: "b"}, Due: store.Due{After: time.Hour}}
			c.item.Terms = store.Terms{Lifetime: time.Hour, Policy: store.Replace, Replicas: store.Replicas{N: 1, Within: time.Millisecond}}
			callers = append(callers, c)
			l = b.of(s)
			c.line, l.queue = l, append(l.queue, c)
		}
		together, call := l.Next()
		b.mu.Unlock()
		if together != len(partitions) {
			t.Fatalf("%d go together", together)
		}
		p, err := partitions[0].Pipeline(t.Context())
		redistest.Check(t, err)
		defer p.Close()
		call(p, nil)
		for _, c := range callers {
			errs = append(errs, redistest.Receive(t, c.answer))
		}
		return errs
	}
	for i, err := range push() {
		if few := new(store.ReplicasError); !errors.As(err, &few) || few.Have != 0 {
			t.Errorf("job %d: %v, want that no replica has it", i, err)
		}
	}
	cutter.Arm(2, true)
	errs := push()
	if few := new(store.ReplicasError); !errors.As(errs[0], &few) || few.Have != -1 || few.Err == nil {
		t.Errorf("the job that was stored: %v, want that it is not known how many replicas have it", errs[0])
	}
	if errs[1] == nil || errors.As(errs[1], new(*store.ReplicasError)) {
		t.Errorf("the job that had no answer: %v, want the network's error", errs[1])
	}
}
