package store

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

// Round is what one exchange with Redis asks for. It does all of that in this
// order, though not as one: others may come in between.
type Round struct {
	Batches []Batch // to be moved, by one script each
	Orphans IDs     // to be dropped
	Look    *Look   // to be looked up then, if not nil
}

// Outcome is what came of a Round.
type Outcome struct {
	Moved   []Moved // of Batches
	Dropped IDs     // those of Orphans that were out of place
	Lookup  Lookup
}

// Exchange is a Round that was sent and not yet answered.
type Exchange struct {
	pipeline *Pipeline
	round    Round
	calls    []*call
}

// Begin sends the round. End must follow.
func (s *Store) Begin(ctx context.Context, r Round) (*Exchange, error) {
	p, err := s.Pipeline(ctx)
	if err != nil {
		return nil, err
	}
	e := &Exchange{pipeline: p, round: r}
	for _, b := range r.Batches {
		keys := []string{s.keys.JobPool(), s.keys.ReadyQueue(b.Topic)}
		e.calls = append(e.calls, p.send(moveScript, moveScript.args(keys, b.IDs...)))
	}
	pool := []string{s.keys.JobPool()}
	if len(r.Orphans) > 0 {
		args := append([]any{s.keys.JobBucket("")}, r.Orphans...)
		e.calls = append(e.calls, p.send(dropScript, dropScript.args(pool, args...)))
	}
	if l := r.Look; l != nil {
		e.calls = append(e.calls, p.send(dueScript, dueScript.args(pool, s.keys.JobBucket(""), l.Limit, l.Since, l.Skip.Backlog, l.Skip.Fresh)))
	}
	p.flush()
	return e, nil
}

// End waits for the answers. With an error it is unknown what Redis has done, and
// the next look-up tells.
func (e *Exchange) End() (Outcome, error) {
	defer e.pipeline.Close()
	replies := make([]any, len(e.calls))
	for i, c := range e.calls {
		reply, err := e.pipeline.receive(c)
		if c.err != nil {
			reply = c.err
		} else if err != nil {
			return Outcome{}, err
		}
		replies[i] = reply
	}
	return e.outcome(replies)
}

func (e *Exchange) outcome(replies []any) (Outcome, error) {
	out := Outcome{Moved: make([]Moved, len(e.round.Batches))}
	for i, b := range e.round.Batches {
		out.Moved[i] = movedOf(b, replies[i])
	}
	replies = replies[len(e.round.Batches):]
	var err error
	if len(e.round.Orphans) > 0 {
		out.Dropped, err = redis.Values(replies[0], errorOf(replies[0]))
		replies = replies[1:]
	}
	if e.round.Look != nil && err == nil {
		if err = errorOf(replies[0]); err == nil {
			out.Lookup, err = lookupOf(replies[0])
		}
	}
	return out, err
}

func errorOf(reply any) error {
	err, _ := reply.(error)
	return err
}

func (s *Store) do(ctx context.Context, r Round) (Outcome, error) {
	e, err := s.Begin(ctx, r)
	if err != nil {
		return Outcome{}, err
	}
	return e.End()
}
