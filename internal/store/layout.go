package store

import (
	"context"
	"slices"
)

var layoutScript = newScript("layout")

// KeptLayout is the layout that a partition stores; zero if it stores none.
type KeptLayout struct {
	Partitions, Previous int // Previous is 0 if no jobs are left there
	Version              int // the number of changes
	Most                 int // the most partitions there ever were
}

// LayoutMode selects the change that a call of Layout makes.
type LayoutMode string

const (
	AskLayout      LayoutMode = "ask"      // nothing
	RegisterLayout LayoutMode = "register" // the caller's layout becomes the present one, if that is allowed
	EndPrevious    LayoutMode = "done"     // nothing is left of the previous layout
	CopyLayout     LayoutMode = "copy"     // another partition's layout replaces an older one
)

// Layout calls layout.lua in this mode.
func (s *Store) Layout(mode LayoutMode, l KeptLayout) *Call[KeptLayout] {
	args := append(arguments(5, s.keys.Layout()), string(mode), l.Partitions, l.Previous, l.Version, l.Most)
	return newCall(s, layoutScript, args, func(reply any) (kept KeptLayout, err error) {
		_, err = scan(reply, &kept.Partitions, &kept.Previous, &kept.Version, &kept.Most)
		return kept, err
	})
}

// HasLayout reports whether the partition stores a layout, by a command that every user may run.
func (s *Store) HasLayout(ctx context.Context) (bool, error) {
	n, err := s.command(ctx, "EXISTS", s.keys.Layout())
	return n == int64(1), err
}

// Size returns the approximate number of jobs and dead letters.
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

// EveryTopic returns the topics that are known or have dead letters.
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
