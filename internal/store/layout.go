package store

import (
	"context"
	"fmt"
	"sync/atomic"
)

var layoutScript = newScript("layout")

// Layout is how many partitions the jobs of a prefix are divided into, and how many they were divided into before, as
// far as some may be left there; 0 if none are. Redis keeps it in partition 0. A program that knows of one
// partition only doesn't ask for it, nor is there one before a program comes that knows of several.
type Layout struct{ Partitions, Before int }

// LayoutError is what a program is refused with that has another number of partitions than Redis has kept.
type LayoutError struct {
	Own  int // the program's number
	Kept Layout
	Key  string // where it is kept
}

// Error names both numbers.
func (e *LayoutError) Error() string {
	return fmt.Sprintf("partitions is %d here, but %d in Redis (%s): want the same number in all programs", e.Own, e.Kept.Partitions, e.Key)
}

// layoutCheck asks Redis once, before anything else is done, whether a program's number of partitions is right.
// It asks again if that failed.
type layoutCheck struct {
	keeper *Store // partition 0, which does this without a check
	own    int
	done   atomic.Bool
	turn   chan struct{} // is full while somebody asks
}

func newLayoutCheck(keeper *Store, own int) *layoutCheck {
	return &layoutCheck{keeper: keeper, own: own, turn: make(chan struct{}, 1)}
}

// pass returns nil if the number is right, a LayoutError if it is wrong, and any other error if it can't be told.
func (c *layoutCheck) pass(ctx context.Context) error {
	if c == nil || c.done.Load() {
		return nil
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.done.Load() {
		return nil
	}
	kept, err := c.keeper.layout(ctx, c.own)
	if err == nil {
		err = c.keeper.keys.admit(c.own, kept)
	}
	c.done.Store(err == nil)
	return err
}

// layout reads what partition 0 has kept. Where there is nothing yet, it keeps that there are so many, unless
// they are 0.
func (s *Store) layout(ctx context.Context, partitions int) (kept Layout, err error) {
	args := append(arguments(1, s.keys.Layout()), partitions)
	_, err = newCall(s, layoutScript, args, func(reply any) ([]any, error) { return scan(reply, &kept.Partitions, &kept.Before) }).Do(ctx)
	return kept, err
}

// admit refuses whoever has another number than the one that is kept. While jobs move on from an older one, those
// who know that one only may go on: so programs can be restarted one after the other.
func (k Keys) admit(own int, kept Layout) error {
	if own == kept.Partitions || own == kept.Before {
		return nil
	}
	return &LayoutError{own, kept, k.Layout()}
}

// CheckLayout fails with a LayoutError if Redis has kept another number of partitions. It is for who has one
// partition, since the calls of several make sure of that themselves.
func (p Partitions) CheckLayout(ctx context.Context) error {
	if len(p) > 1 {
		return p[0].layoutCheck.pass(ctx)
	}
	keeper := &Store{pool: p[0].pool, keys: p[0].keys.partition(0)}
	kept, err := keeper.layout(ctx, 0)
	if err != nil || kept == (Layout{}) {
		return err
	}
	return keeper.keys.admit(1, kept)
}
