package store

import "context"

// InTurn makes many calls, one to each of the stores, in their order: on one connection to each node, and so many
// at a time there. answered is told of each, in that order, and says whether to go on; if not, those that are not
// under way are not made, nor told of.
func InTurn[T any](ctx context.Context, stores []*Store, atATime int, call func(i int) *Call[T], answered func(i int, answer T, err error) (goOn bool)) {
	lines := pipelines{}
	defer lines.close()
	inTurn(ctx, lines, stores, atATime, call, answered)
}

// inTurn is InTurn on the caller's connections, to which it adds.
func inTurn[T any](ctx context.Context, lines pipelines, stores []*Store, atATime int, call func(i int) *Call[T], answered func(i int, answer T, err error) (goOn bool)) {
	type made struct {
		*Call[T]
		err error // why it could not be made
	}
	var calls []made
	underWay, goOn := atATime*len(Partitions(stores).Nodes()), true
	for i := 0; ; i++ {
		for goOn && len(calls) < min(i+underWay, len(stores)) {
			p, err := lines.to(ctx, stores[len(calls)])
			if err != nil {
				calls = append(calls, made{nil, err})
				continue
			}
			calls = append(calls, made{call(len(calls)).Send(p), nil})
			p.Flush()
		}
		if i == len(calls) {
			return
		}
		answer, err := calls[i].Wait(ctx)
		if calls[i].err != nil {
			err = calls[i].err
		}
		calls[i] = made{}
		goOn = answered(i, answer, err) && goOn
	}
}

// pipelines are one to each node.
type pipelines map[any]*Pipeline

func (l pipelines) to(ctx context.Context, s *Store) (*Pipeline, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	node := s.Node()
	if l[node] == nil {
		p, err := s.Pipeline(ctx)
		if err != nil {
			return nil, err
		}
		l[node] = p
	}
	return l[node], nil
}

func (l pipelines) close() {
	for _, p := range l {
		p.Close()
	}
}
