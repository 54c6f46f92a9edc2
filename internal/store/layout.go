package store

import (
	"context"
	"slices"
)

var layoutScript = newScript("layout")

// KeptLayout is what a partition has kept of how many partitions there are, zero if it has kept nothing.
type KeptLayout struct {
	Partitions, Previous int // how many there are, and were, as far as jobs may be left in those; 0 if none may
	Version              int // of how many changes it is the last one
	Most                 int // partitions that there ever were
}

// Layout makes a call of layout.lua in that mode.
func (s *Store) Layout(mode string, l KeptLayout) *Call[KeptLayout] {
	args := append(arguments(5, s.keys.Layout()), mode, l.Partitions, l.Previous, l.Version, l.Most)
	return newCall(s, layoutScript, args, func(reply any) (kept KeptLayout, err error) {
		_, err = scan(reply, &kept.Partitions, &kept.Previous, &kept.Version, &kept.Most)
		return kept, err
	})
}

// HasLayout reports whether the partition has kept a layout, by a command that every user may run.
func (s *Store) HasLayout(ctx context.Context) (bool, error) {
	n, err := s.command(ctx, "EXISTS", s.keys.Layout())
	return n == int64(1), err
}

// Size is how many jobs and dead letters there are, about.
func (s *Store) Size(ctx context.Context) (int, error) {
	topics, err := s.EveryTopic(ctx)
	if err != nil {
		return 0, err
	}
	stats, err := s.Stats(ctx, topics, false)
	n := stats.Pool
	for _, t := range stats.Topics {
		n += max(t.Ready, 0) + max(t.Dead, 0)
	}
	return n, err
}

// EveryTopic names the topics that are known or have dead letters.
func (s *Store) EveryTopic(ctx context.Context) ([]string, error) {
	known, _, err := s.KnownTopics(ctx, AllTopics, "")
	if err != nil {
		return nil, err
	}
	dead, _, err := s.DeadTopics(ctx, AllTopics)
	all := append(known, dead...)
	slices.Sort(all)
	return slices.Compact(all), err
}
