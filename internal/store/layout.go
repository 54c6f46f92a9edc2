package store

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
)

var layoutScript = newScript("layout")

// Layout is how many partitions the jobs of a prefix are divided into, and how many they were divided into before, as
// far as some may be left there; 0 if none are. Redis keeps it in partition 0. A program that knows of one
// partition only doesn't ask for it, nor is there one before a program comes that knows of several.
type Layout struct{ Partitions, Before int }

// Check says why there can't be such a layout of the keys with that prefix.
func (l Layout) Check(prefix string) error {
	most := max(l.Partitions, l.Before)
	switch {
	case l.Partitions < 0 || l.Partitions > MaxPartitions:
		return fmt.Errorf("partitions: %d is not from 1 to %d", l.Partitions, MaxPartitions)
	case l.Before < 0 || l.Before > MaxPartitions:
		return fmt.Errorf("partitions before: %d is not from 1 to %d", l.Before, MaxPartitions)
	case l.Before > 0 && l.Before == max(l.Partitions, 1):
		return fmt.Errorf("partitions before: %d is what partitions is; want what it was, or nothing", l.Before)
	case most > 1 && strings.ContainsAny(prefix, "{}"):
		return fmt.Errorf("prefix: %s has braces, which the keys of %d partitions have themselves", Quote(prefix), most)
	}
	return nil
}

// keys are those of the layout's partitions, and then those of the layout before that are none of these.
func (l Layout) keys(of Keys) (all []Keys) {
	known := map[Keys]bool{}
	for _, n := range []int{max(l.Partitions, 1), l.Before} {
		for i := range n {
			keys := of
			if n > 1 {
				keys = of.partition(i)
			}
			if !known[keys] {
				known[keys] = true
				all = append(all, keys)
			}
		}
	}
	return all
}

// beforeAt is where among all partitions the one is that had that number before.
func (l Layout) beforeAt(number int) int {
	switch {
	case l.Before == 1:
		return l.Partitions
	case l.Partitions <= 1:
		return number + 1
	}
	return number
}

// numberBefore is the number that a partition of the layout before only had in that.
func (l Layout) numberBefore(place int) int {
	if l.Before == 1 {
		return 0
	}
	if l.Partitions <= 1 {
		return place - 1
	}
	return place
}

// LayoutError is what a program is refused with that has another layout than Redis has kept.
type LayoutError struct {
	Own  Layout // the program's
	Kept Layout
	Key  string // where it is kept
}

// Error names both layouts.
func (e *LayoutError) Error() string {
	own, kept := e.Own, e.Kept
	switch {
	case own.Partitions == kept.Partitions && own.Before == 0:
		return fmt.Sprintf("partitions_before is missing: jobs may be left in the %s of before (%s); want partitions_before = %d here until delayer migrate says that there are none",
			many(kept.Before), e.Key, kept.Before)
	case kept == Layout{Partitions: 1}:
		return fmt.Sprintf("partitions is %d here, but there are jobs of a single partition (%s): want partitions_before = 1 as well, so that they are found, and then delayer migrate",
			own.Partitions, e.Key)
	case own.Before == 0 && kept.Before == 0:
		return fmt.Sprintf("partitions is %d here, but %d in Redis (%s): want the same number in all programs", own.Partitions, kept.Partitions, e.Key)
	}
	return fmt.Sprintf("here it is %s, but in Redis %s (%s): want the same in all programs, and another number only when delayer migrate is done with the last one",
		own, kept, e.Key)
}

// String says it in words.
func (l Layout) String() string {
	if l.Before == 0 {
		return many(l.Partitions)
	}
	return fmt.Sprintf("%s, %d before", many(l.Partitions), l.Before)
}

func many(partitions int) string {
	if partitions == 1 {
		return "1 partition"
	}
	return fmt.Sprintf("%d partitions", partitions)
}

// layoutCheck asks Redis once, before anything else is done, whether a program's layout is right.
// It asks again if that failed.
type layoutCheck struct {
	keeper *Store // partition 0 where there are several, which does this without a check
	single *Store // the only partition, where there is one
	own    Layout
	done   atomic.Bool
	turn   chan struct{} // is full while somebody asks
}

func newLayoutCheck(pool *redis.Pool, keys Keys, own Layout) *layoutCheck {
	own.Partitions = max(own.Partitions, 1)
	return &layoutCheck{keeper: New(pool, keys.partition(0).prefix), single: New(pool, keys.prefix), own: own, turn: make(chan struct{}, 1)}
}

// pass returns nil if the layout is right, a LayoutError if it is wrong, and any other error if it can't be told.
func (c *layoutCheck) pass(ctx context.Context) error {
	if c.done.Load() {
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
	err := c.enter(ctx)
	c.done.Store(err == nil)
	return err
}

// enter has Redis keep the program's layout, if it may.
func (c *layoutCheck) enter(ctx context.Context) error {
	kept, err := c.keeper.layout(ctx, Layout{}, "ask")
	if err == nil && kept == (Layout{}) && c.own.Before == 0 && !c.keeper.isInCluster() {
		err = c.refuseJobsOfOne(ctx)
	}
	if err == nil && kept != c.own {
		kept, err = c.keeper.layout(ctx, c.own, "enter")
	}
	if err == nil {
		err = c.keeper.keys.admit(c.own, kept)
	}
	return err
}

// refuseJobsOfOne fails if there are jobs of a single partition: whoever has several would not see them. A user who may not
// know has to know himself.
func (c *layoutCheck) refuseJobsOfOne(ctx context.Context) error {
	size, err := c.single.size(ctx)
	if size > 0 {
		return &LayoutError{c.own, Layout{Partitions: 1}, c.single.keys.JobPool()}
	}
	if Refused(err) {
		return nil
	}
	return err
}

// layout has partition 0 keep the layout, if the one that it has kept may become that, and returns the one that it keeps now.
// The mode is 'enter', 'ask', which changes nothing, or 'done': nothing is left of the layout before.
func (s *Store) layout(ctx context.Context, own Layout, mode string) (kept Layout, err error) {
	args := append(arguments(3, s.keys.Layout()), own.Partitions, own.Before, mode)
	_, err = newCall(s, layoutScript, args, func(reply any) ([]any, error) { return scan(reply, &kept.Partitions, &kept.Before) }).Do(ctx)
	return kept, err
}

// admit refuses whoever has another layout than the one that is kept. While jobs move on from an older one, those
// who know that one only may go on: so programs can be restarted one after the other. And so may those who
// still know of the older one when nothing is left there.
func (k Keys) admit(own, kept Layout) error {
	if own == kept || own == (Layout{Partitions: kept.Before}) || own.Partitions == kept.Partitions && kept.Before == 0 {
		return nil
	}
	return &LayoutError{own, kept, k.Layout()}
}

// CheckLayout fails with a LayoutError if Redis has kept another layout. It is for who has one
// partition, since the calls of several make sure of that themselves.
func (p Partitions) CheckLayout(ctx context.Context) error {
	if p[0].layoutCheck != nil {
		return p[0].layoutCheck.pass(ctx)
	}
	keeper := &Store{pool: p[0].pool, keys: p[0].keys.partition(0)}
	kept, err := keeper.layout(ctx, Layout{}, "ask")
	if err != nil || kept == (Layout{}) {
		return err
	}
	return keeper.keys.admit(Layout{Partitions: 1}, kept)
}
