package store

import (
	"context"
	"strings"

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
	ctx   context.Context
	conn  redis.Conn
	round Round
	calls []scriptCall
}

type scriptCall struct {
	script *redis.Script
	args   []any
}

// Begin sends the round. End must follow.
func (s *Store) Begin(ctx context.Context, r Round) (*Exchange, error) {
	conn, err := s.pool.GetContext(ctx)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	e := &Exchange{ctx: ctx, conn: conn, round: r, calls: s.calls(r)}
	for _, call := range e.calls {
		if err = call.script.SendHash(conn, call.args...); err != nil {
			break
		}
	}
	if err == nil {
		err = conn.Flush()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return e, nil
}

func (s *Store) calls(r Round) []scriptCall {
	calls := make([]scriptCall, 0, len(r.Batches)+2)
	for _, b := range r.Batches {
		keys := []string{s.keys.JobPool(), s.keys.ReadyQueue(b.Topic)}
		calls = append(calls, scriptCall{moveScript, scriptArgs(keys, b.IDs...)})
	}
	pool := []string{s.keys.JobPool()}
	if len(r.Orphans) > 0 {
		args := append([]any{s.keys.JobBucket("")}, r.Orphans...)
		calls = append(calls, scriptCall{dropScript, scriptArgs(pool, args...)})
	}
	if l := r.Look; l != nil {
		calls = append(calls, scriptCall{dueScript, scriptArgs(pool, s.keys.JobBucket(""), l.Limit, l.Since, l.Skip.Backlog, l.Skip.Fresh)})
	}
	return calls
}

// End waits for the answer. With an error it is unknown what Redis has done, and
// the next look-up tells.
func (e *Exchange) End() (Outcome, error) {
	defer e.conn.Close()
	replies, err := e.replies(len(e.calls))
	if err == nil {
		err = e.resend(replies)
	}
	if err != nil {
		return Outcome{}, err
	}
	return e.outcome(replies)
}

func (e *Exchange) replies(n int) ([]any, error) {
	if n == 0 {
		return nil, nil
	}
	replies, err := redis.Values(redis.DoContext(e.conn, e.ctx, ""))
	if err == nil && len(replies) != n {
		err = errReply("a pipeline", replies)
	}
	return replies, causeOf(e.ctx, err)
}

// resend sends the calls again, in full, whose script Redis did not know, and
// puts the answers in their places. A look-up goes with them: it was to come after them.
func (e *Exchange) resend(replies []any) error {
	var places []int
	for i, reply := range replies {
		last := i == len(replies)-1
		if isNoScript(reply) || last && e.round.Look != nil && len(places) > 0 {
			places = append(places, i)
			if err := e.calls[i].script.Send(e.conn, e.calls[i].args...); err != nil {
				return err
			}
		}
	}
	again, err := e.replies(len(places))
	for i, reply := range again {
		replies[places[i]] = reply
	}
	return err
}

func isNoScript(reply any) bool {
	err, ok := reply.(redis.Error)
	return ok && strings.HasPrefix(string(err), "NOSCRIPT ")
}

func (e *Exchange) outcome(replies []any) (Outcome, error) {
	out := Outcome{Moved: make([]Moved, len(e.round.Batches))}
	for i, b := range e.round.Batches {
		out.Moved[i] = movedOf(b, replies[i])
	}
	replies = replies[len(e.round.Batches):]
	var err error
	if len(e.round.Orphans) > 0 {
		out.Dropped, err = redis.Values(replies[0], nil)
		replies = replies[1:]
	}
	if e.round.Look != nil && err == nil {
		out.Lookup, err = lookupOf(replies[0])
	}
	return out, err
}

func (s *Store) do(ctx context.Context, r Round) (Outcome, error) {
	e, err := s.Begin(ctx, r)
	if err != nil {
		return Outcome{}, err
	}
	return e.End()
}
