package inspect

import (
	"context"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// DeadLately tells of each topic when its newest dead letter was buried, and how many were since a time, of the partitions that can be read.
// It costs Redis some microseconds a topic.
func (o *Inspector) DeadLately(ctx context.Context, topics []string, since time.Time) ([]store.DeadLately, error) {
	failed := make(failures, len(o.fleet.Stores))
	parts := make([][]store.DeadLately, len(failed))
	o.each(ctx, failed, func(ctx context.Context, i int, s *store.Store) (err error) {
		parts[i], err = s.DeadLately(ctx, topics, since)
		return err
	})
	if err := failed.all(); err != nil {
		return nil, fmt.Errorf("dead letters: %w", err)
	}
	all := make([]store.DeadLately, len(topics))
	for i, part := range parts {
		if failed[i] != nil {
			continue
		}
		for k, of := range part {
			all[k].Since = Plus(all[k].Since, of.Since)
			if of.Newest.After(all[k].Newest) {
				all[k].Newest = of.Newest
			}
		}
	}
	return all, nil
}
