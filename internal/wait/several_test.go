package wait

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A caller gets jobs from all stores, or ErrEmpty if none has any.
func TestSeveralStores(t *testing.T) {
	t.Parallel()
	var log redistest.Log
	a, b := store.New(redistest.Start(t).Pool(), store.DefaultPrefix), store.New(redistest.Start(t).Pool(), store.DefaultPrefix)
	dispatcher, _ := onRedis(t, &log, a, b)
	push := func(s *store.Store, topic string) {
		t.Helper()
		job := store.Delayed{Job: store.Job{ID: "id", Topic: topic, Body: "b"}, Terms: store.Terms{Lifetime: time.Hour, Policy: store.Replace}}
		errs, err := s.Push([]store.Delayed{job}).Do(t.Context())
		redistest.Check(t, errors.Join(append(errs, err)...))
	}
	poll := func(r Request) (Jobs, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r.N = 1
		return dispatcher.Take(ctx, r)
	}
	for _, topics := range [][]string{{"t"}, {"u", "t"}} {
		for _, s := range []*store.Store{b, a} {
			push(s, "t")
			if got, err := poll(Request{Topics: topics}); err != nil || got.Jobs[0].Topic != "t" {
				t.Errorf("%q: %+v, %v", topics, got, err)
			}
			if got, err := poll(Request{Topics: topics}); err != store.ErrEmpty {
				t.Errorf("%q: %+v, %v, want ErrEmpty", topics, got, err)
			}
			result := waits(t, t.Context(), dispatcher, "t")
			push(s, "t")
			if got := redistest.Receive(t, result); got.err != nil || got.Jobs.Jobs[0].Topic != "t" {
				t.Errorf("%q, who waits: %+v", topics, got)
			}
		}
	}
}

// A store that gets a job while all its callers are claimed elsewhere is polled once they are free.
func TestBlockedByAnotherStore(t *testing.T) {
	h := inHand(t)
	elsewhere := store.New(&redis.Pool{Dial: func() (redis.Conn, error) { return nil, errCut }}, store.DefaultPrefix)
	other := &partition{dispatcher: h.Dispatcher, store: elsewhere, index: len(h.partitions), queues: map[string]*waitQueue{}}
	h.partitions = append(h.partitions, other)
	node := newNode(h.Dispatcher, []*partition{other})
	node.listener.running, node.listener.state = true, subscribed
	h.nodes = append(h.nodes, node)
	g := newCaller(h.Dispatcher, Request{Topics: []string{"t"}, N: 1, Waits: true})
	_, err := h.join(g)
	redistest.Check(t, err)
	one := h.asks()
	h.mu.Lock()
	other.batches = batch.NewSender(h.owner, other.store.Pipeline, &h.mu, node, 1)
	other.queue("t").on(woken, 1)
	other.queue("t").goOn()
	other.batches.Wake() // no effect: its caller is claimed
	h.mu.Unlock()
	h.answer(one, store.Popped{Registered: true}, nil)
	// The store is polled now; it has no connection.
	redistest.Until(t, "the other store is asked", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		return errors.Is(g.lastErr, errCut)
	})
}
