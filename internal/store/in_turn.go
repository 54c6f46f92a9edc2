package store

import (
	"cmp"
	"context"

	"github.com/mix-basic/delayer/internal/redisconn"
)

// InTurn makes many calls, one to each of the stores, in their order: on one connection to each node, and so many
// at a time there. Those to a store whose slot of a cluster is on its way come last, so that no others wait with them. answered is
// told of each in the order in which they are made, and says whether to go on; if not, those that are not under way are not
// made, nor told of.
func InTurn[T any](ctx context.Context, stores []*Store, atATime int, call func(i int) *Call[T], answered func(i int, answer T, err error) (goOn bool)) {
	lines := pipelines{}
	defer lines.close()
	inTurn(ctx, lines, stores, atATime, call, answered)
}

// inTurn is InTurn on the caller's connections, to which it adds.
func inTurn[T any](ctx context.Context, lines pipelines, stores []*Store, atATime int, call func(i int) *Call[T], answered func(i int, answer T, err error) (goOn bool)) {
	t := turns[T]{lines, stores, atATime * len(ByNode(stores, itself)), call, answered}
	all := make([]int, len(stores))
	for i := range all {
		all[i] = i
	}
	if later, goOn := t.take(ctx, all, true); goOn {
		t.take(ctx, later, false)
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

// turn is a call, or why there is none.
type turn[T any] struct {
	*Call[T]
	err   error // there is no connection
	later bool  // it is to be made later
}

// take makes those calls. If direct is set, those of stores whose calls the node does not do now are not made, and returned.
func (t *turns[T]) take(ctx context.Context, list []int, direct bool) (later []int, goOn bool) {
	var calls []turn[T]
	away := map[*Store]bool{}
	goOn = true
	for k, i := range list {
		for goOn && len(calls) < min(k+t.atATime, len(list)) {
			next := list[len(calls)]
			if away[t.stores[next]] {
				calls = append(calls, turn[T]{later: true})
			} else {
				calls = append(calls, t.send(ctx, next, direct))
			}
		}
		if k == len(calls) {
			break
		}
		c := calls[k]
		calls[k] = turn[T]{}
		answer, err := c.Wait(ctx)
		if c.later || direct && c.IsElsewhere() {
			away[t.stores[i]] = true
			later = append(later, i)
			continue
		}
		goOn = t.answered(i, answer, cmp.Or(c.err, err)) && goOn
	}
	return later, goOn
}

func (t *turns[T]) send(ctx context.Context, i int, direct bool) turn[T] {
	p, err := t.lines.to(ctx, t.stores[i])
	if err != nil {
		return turn[T]{err: err}
	}
	if p.OnRefusal = Redirect; direct {
		p.OnRefusal = NoRedirect
	}
	c := t.call(i).Send(p)
	p.Flush()
	return turn[T]{Call: c}
}

// pipelines are one to each node.
type pipelines map[*redisconn.Node]*Pipeline

func (l pipelines) to(ctx context.Context, s *Store) (*Pipeline, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if p := l[s.Node()]; p != nil {
		return p, nil
	}
	p, err := s.Pipeline(ctx)
	if err != nil {
		return nil, err
	}
	node := s.Node() // a cluster's is known now
	if l[node] != nil {
		p.Close()
		return l[node], nil
	}
	l[node] = p
	return p, nil
}

func (l pipelines) close() {
	for _, p := range l {
		p.Close()
	}
}
