package inspect

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/internal/store"
)

// Pauses are the paused topics, sorted by name.
type Pauses []store.Pause

// Of returns the topic's pause, nil if it is not paused.
func (p Pauses) Of(topic string) *store.Pause {
	at, found := slices.BinarySearchFunc(p, topic, func(one store.Pause, topic string) int { return strings.Compare(one.Topic, topic) })
	if !found {
		return nil
	}
	return &p[at]
}

// Block reports whether a pause or a limit delays the topic's jobs, so that its consumers are not at fault. Jobs without their limit's tag
// count as well.
func (p Pauses) Block(t TopicCounts) bool {
	return t.Throttled > 0 || t.Untagged > 0 || p.Of(t.Topic) != nil
}

// Paused reads the topics that are paused in any readable partition. It costs Redis next to nothing.
func (o *Inspector) Paused(ctx context.Context) (Pauses, error) {
	return o.paused(ctx, o.none())
}

// paused is Paused of the partitions that have not failed yet.
func (o *Inspector) paused(ctx context.Context, failed failures) (Pauses, error) {
	parts, err := gather(ctx, o, slices.Clone(failed), func(ctx context.Context, _ int, s *store.Store) ([]store.Pause, error) {
		return s.Paused(ctx)
	})
	if err != nil {
		return nil, fmt.Errorf("read pauses: %w", err)
	}
	return store.JoinPauses(slices.Concat(parts...)), nil
}

// PausedIfAllowed is Paused where pauses are a detail: it returns none if the Redis user may not read them.
func (o *Inspector) PausedIfAllowed(ctx context.Context) (Pauses, error) {
	pauses, err := o.Paused(ctx)
	if store.Refused(err) {
		return nil, nil
	}
	return pauses, err
}
