package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/mix-basic/delayer/internal/redisconn"
)

// retryWindow is redisconn.RetryWindow, except in tests.
var retryWindow = redisconn.RetryWindow

// OfOneSlot reports whether err means that a cluster can't run a call now: the slot is moving, no node owns it (CLUSTERDOWN), or another node than
// that asked has it (MOVED). Nothing was changed; other slots may be well.
//
// A slot moves key by key. The old node refuses calls for keys that it no longer has; a script is refused at the latest when it reaches
// the key. ASK is not followed to the new node, where a script would take keys that have not arrived for missing.
func OfOneSlot(err error) bool { return meaningOf(err) == elsewhere }

// UntilServed makes a call, and again after a pause while a cluster can't run it, until retryWindow is over.
func (s *Store) UntilServed(ctx context.Context, call func() error) error {
	err := call()
	if !s.inCluster || !OfOneSlot(err) {
		return err
	}
	for tries := redisconn.NewTries(retryWindow); OfOneSlot(err) && tries.Wait(ctx); {
		err = call()
	}
	if ctx.Err() != nil && OfOneSlot(err) {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return err
}

// hasMoved reports whether err names the node that has the store's slot, which the next connection leads to.
func (s *Store) hasMoved(err error) bool {
	words := strings.Fields(wordsOf(err)) // MOVED slot host:port
	if len(words) != 3 || words[0] != "MOVED" {
		return false
	}
	s.source.Moved(words[2])
	return true
}

// IsElsewhere reports whether the single server that was configured is a node of a cluster, and another node has the key.
func (s *Store) IsElsewhere(err error) bool { return !s.inCluster && s.hasMoved(err) }

// InCluster reports whether the store's keys are in a slot of a cluster.
func (s *Store) InCluster() bool { return s.inCluster }

// Sharded reports whether the store's channels belong to its slot, which takes other commands.
func (s *Store) Sharded() bool { return s.source.Sharded() }

// Addr returns the address of the node of a cluster that has the store's keys; "" if no node has them, or there is no cluster. It asks the nodes only if
// that is not known, and fails if none answers.
func (s *Store) Addr(ctx context.Context) (string, error) { return s.source.Addr(ctx) }
