package store

import (
	"context"

	"github.com/mix-basic/delayer/internal/redisconn"
)

// InTurn makes one call to each of the stores, in order, on one connection to each node with atATime calls in flight. Calls to a store
// whose slot is moving come last, so that no others wait for them. answered gets each reply in the order of the calls and returns whether
// to continue; if not, calls that are not in flight are not made.
func InTurn[T any](ctx context.Context, stores []*Store, atATime int, call func(i int) *Call[T], answered func(i int, answer T, err error) (goOn bool)) {
	lines := pipelines{}
	defer lines.close()
	inTurn(ctx, lines, stores, atATime, call, answered)
}

// inTurn is InTurn on the caller's connections, and adds to them.
func inTurn[T any](ctx context.Context, lines pipelines, stores []*Store, atATime int, call func(i int) *Call[T], answered func(i int, answer T, err error) (goOn bool)) {
	t := turns[T]{lines, stores, atATime * len(ByNode(stores, itself)), call, answered}
	all := make([]int, len(stores))
	for i := range all {
		all[i] = i
	}
	later, goOn := t.take(ctx, all)
	for _, i := range later {
		if goOn {
			answer, err := call(i).Do(ctx)
			goOn = answered(i, answer, err)
		}
	}
}

// turns are the calls of an InTurn.
type turns[T any] struct {
	lines    pipelines
	stores   []*Store
	atATime  int // at all nodes together
	call     func(i int) *Call[T]
	answered func(i int, answer T, err error) (goOn bool)
}

// take makes the calls of the list. It skips stores for which a node has refused a call, and returns these calls.
func (t *turns[T]) take(ctx context.Context, list []int) (later []int, goOn bool) {
	calls := make([]*Call[T], 0, len(list)) // nil: left for later
	away := map[*Store]bool{}
	goOn = true
	for k, i := range list {
		for goOn && len(calls) < min(k+t.atATime, len(list)) {
			var next *Call[T]
			if i := list[len(calls)]; !away[t.stores[i]] {
				next = t.send(ctx, i)
			}
			calls = append(calls, next)
		}
		if k == len(calls) {
			break
		}
		c := calls[k]
		calls[k] = nil
		answer, err := c.Wait(ctx)
		if c == nil || OfOneSlot(err) {
			away[t.stores[i]] = true
			later = append(later, i)
			continue
		}
		goOn = t.answered(i, answer, err) && goOn
	}
	return later, goOn
}

// send sends the call; without a connection it returns a failed one.
func (t *turns[T]) send(ctx context.Context, i int) *Call[T] {
	p, err := t.lines.to(ctx, t.stores[i])
	if err != nil {
		return &Call[T]{run: run{err: err, done: true}}
	}
	c := t.call(i).Send(p)
	p.Flush()
	return c
}

// pipelines holds one connection to each Redis; in a cluster one for each store.
type pipelines map[*redisconn.Source]*Pipeline

func (l pipelines) to(ctx context.Context, s *Store) (*Pipeline, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p := l[s.source]
	if p == nil {
		var err error
		if p, err = s.Pipeline(ctx); err != nil {
			return nil, err
		}
		l[s.source] = p
	}
	return p, nil
}

func (l pipelines) close() {
	for _, p := range l {
		p.Close()
	}
}
