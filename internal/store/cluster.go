package store

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/internal/redisconn"
)

// retryWindow is redisconn.RetryWindow, except in tests.
var retryWindow = redisconn.RetryWindow

// isNotHere reports whether err means that a node of a cluster has changed nothing: another node owns the slot (MOVED), the slot is
// moving, or no node owns it (CLUSTERDOWN).
//
// A slot moves key by key. The old node refuses calls for keys that it no longer has; a script is refused at the latest when it reaches
// the key. ASK is not followed to the new node, where a script would take keys that have not arrived for missing.
func isNotHere(err error) bool { return meaningOf(err) == elsewhere }

// hasMoved reports whether err names the node that owns the slot.
func hasMoved(err error) bool { return strings.HasPrefix(wordsOf(err), "MOVED ") }

// isElsewhere reports whether err means that this node has changed nothing, but another node may run the call, or the same one later.
func (s *Store) isElsewhere(err error) bool {
	slot, ok := s.pool.(*redisconn.Slot)
	if !ok || err == nil || !isNotHere(err) && !takesNoWrites(err) {
		return false
	}
	if words := strings.Fields(err.Error()); words[0] == "MOVED" && len(words) == 3 { // MOVED slot host:port
		if number, err := strconv.Atoi(words[1]); err == nil {
			slot.Moved(number, words[2])
		}
	}
	return true
}

// isElsewhere is Store.isElsewhere for a call, which keeps err as its error.
func (c *run) isElsewhere(err error) bool {
	if !c.store.isElsewhere(err) {
		return false
	}
	c.err, c.refused = err, true
	return true
}

// redirect repeats refused calls at the current nodes of their slots, until they are done or retryWindow is over.
func (p *Pipeline) redirect(ctx context.Context) {
	calls := p.elsewhere
	p.elsewhere, p.redirected = nil, true
	tries := redisconn.NewTries(retryWindow)
	within, cancel := tries.Within(ctx)
	defer cancel()
	for wait := !haveMoved(calls); len(calls) > 0; wait = true {
		if wait && (p.OnRefusal == NoWait || !tries.Wait(ctx)) {
			break
		}
		calls = again(ctx, within, calls)
	}
	for _, c := range calls {
		c.done = true
	}
}

// haveMoved reports whether each refusal names the node that has the slot.
func haveMoved(calls []*run) bool {
	for _, c := range calls {
		if !hasMoved(c.err) {
			return false
		}
	}
	return true
}

// again repeats each of the calls once, and returns those that were refused again. within bounds the wait for a connection.
func again(ctx, within context.Context, calls []*run) (refused []*run) {
	for _, here := range ByNode(calls, func(c *run) *Store { return c.store }) {
		s := here[0].store
		conn, err := s.pool.Get(within)
		if err != nil {
			refused = append(refused, here...)
			continue
		}
		refused = append(refused, atOnce(ctx, &Pipeline{store: s, conn: conn, OnRefusal: NoRedirect}, here)...)
	}
	return refused
}

// atOnce makes the calls in the pipeline, closes it, and returns the refused ones.
func atOnce(ctx context.Context, p *Pipeline, calls []*run) []*run {
	defer p.Close()
	for _, c := range calls {
		c.behind, c.err, c.done, c.refused = false, nil, false, false
		p.write(c, false)
	}
	for len(p.sent) > 0 && p.err == nil {
		p.Flush()
		p.readOne(ctx)
	}
	for _, c := range p.sent { // the answers are lost
		c.err, c.done = causeOf(ctx, p.err), true
	}
	return slices.DeleteFunc(calls, func(c *run) bool { return !c.refused })
}

// IsElsewhere reports whether the single server that was configured is a node of a cluster, and another node has the key.
func (s *Store) IsElsewhere(err error) bool {
	_, ok := s.pool.(*redisconn.Server)
	return ok && hasMoved(err)
}

// InCluster reports whether the store's keys are in a slot of a cluster.
func (s *Store) InCluster() bool {
	_, ok := s.pool.(*redisconn.Slot)
	return ok
}

// Sharded reports whether the store's channels belong to its slot, which takes other commands.
func (s *Store) Sharded() bool {
	slot, ok := s.pool.(*redisconn.Slot)
	return ok && slot.Sharded()
}
