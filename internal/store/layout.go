package store

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redisconn"
)

var layoutScript = newScript("layout")

// Layout is how many partitions the jobs of a prefix are divided into, and how many they were divided into before, as
// far as some may be left there; 0 if none are. Redis keeps it in partition 0 once a program has come that knows of several.
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
		return fmt.Sprintf("previous_partitions is missing: jobs may be left in the %s of before (%s); want previous_partitions = %d here until delayer migrate says that there are none",
			many(kept.Before), e.Key, kept.Before)
	case kept == Layout{Partitions: 1}:
		return fmt.Sprintf("partitions is %d here, but there are jobs of a single partition (%s): want previous_partitions = 1 as well, so that they are found, and then delayer migrate",
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

// keptLayout is the layout that a partition has kept, zero if it has kept none.
type keptLayout struct {
	Layout
	version int // of how many changes it is the last one
	most    int // partitions that there ever were
}

// layoutCheck asks Redis once, before anything else is done, whether a program's layout is right.
// It asks again if that failed, and after a while if partition 0 did not answer.
//
// In a cluster partition 0 alone decides: on a first layout, so that of two who come with different numbers one is refused, on
// another one, and on the end of the one before. The other partitions have copies. While the node of partition 0 is
// away the newest of these admits a program, but none changes anything.
type layoutCheck struct {
	router redisconn.Router
	keys   Keys
	keeper *Store // partition 0 of several, without a check of its own
	single *Store // the only partition of one, likewise
	own    Layout
	done   atomic.Bool
	turn   chan struct{} // is full while somebody asks
	until  time.Time     // a copy admits the program
}

const (
	// firstPatience is how long partition 0 may take before the others are asked, too, and copyPatience how long these may take.
	firstPatience, copyPatience = 300 * time.Millisecond, time.Second
	// copyLasts is for how long a copy admits a program before partition 0 is asked again.
	copyLasts = time.Minute
)

func newLayoutCheck(router redisconn.Router, keys Keys, own Layout) *layoutCheck {
	own.Partitions = max(own.Partitions, 1)
	return &layoutCheck{
		router: router, keys: keys, keeper: newStore(router, keys.partition(0)), single: newStore(router, keys),
		own: own, turn: make(chan struct{}, 1),
	}
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
	if c.done.Load() || time.Now().Before(c.until) {
		return nil
	}
	if c.own == (Layout{Partitions: 1}) {
		return c.passOne(ctx)
	}
	isCopy, err := c.enter(ctx)
	switch {
	case err != nil:
	case isCopy:
		c.until = time.Now().Add(copyLasts)
	default:
		c.done.Store(true)
	}
	return err
}

// passOne is pass for a program that never had but one partition. Where no layout was ever kept it needs no permission beyond what
// its calls need: a user who may not ask is let in.
func (c *layoutCheck) passOne(ctx context.Context) error {
	exists, err := redis.Bool(c.keeper.command(ctx, "EXISTS", c.keeper.keys.Layout()))
	switch {
	case KindOf(err) == NoAnswer:
		return err
	case err != nil:
		c.done.Store(!Temporary(err)) // what is temporary the call meets, too, and knows what to do about it
		return nil
	case exists:
		var kept keptLayout
		if kept, err = c.keeper.layout("ask", keptLayout{}).Do(ctx); err == nil {
			err = c.admit(kept.Layout)
		}
	}
	c.done.Store(err == nil)
	return err
}

// enter has Redis keep the program's layout, if it may, and reports whether it was a copy that has admitted it.
func (c *layoutCheck) enter(ctx context.Context) (isCopy bool, err error) {
	kept, isCopy, err := c.ask(ctx)
	if err != nil || isCopy {
		return isCopy, err
	}
	if kept.Layout == (Layout{}) {
		if c.keeper.InCluster() { // what partition 0 has lost is restored
			if lost := c.onOthers(ctx, "ask", keptLayout{}); lost.Layout != (Layout{}) {
				kept, err = c.keeper.layout("copy", lost).Do(ctx)
			}
		} else if c.own.Before == 0 {
			err = c.refuseJobsOfOne(ctx)
		}
	}
	if version := kept.version; err == nil && kept.Layout != c.own {
		kept, err = c.keeper.layout("enter", keptLayout{Layout: c.own}).Do(ctx)
		if err == nil && kept.version != version {
			c.copy(ctx, kept)
		}
	}
	if err == nil {
		err = c.admit(kept.Layout)
	}
	return false, err
}

// ask asks partition 0 what it has kept. If that does not answer soon a copy will do that admits the program.
func (c *layoutCheck) ask(ctx context.Context) (kept keptLayout, isCopy bool, err error) {
	if !c.keeper.InCluster() {
		kept, err = c.keeper.layout("ask", keptLayout{}).Do(ctx)
		return kept, false, err
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		kept keptLayout
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		kept, err := c.keeper.layout("ask", keptLayout{}).Do(asking)
		answered <- answer{kept, err}
	}()
	var first answer
	select {
	case first = <-answered:
		if first.err == nil || !Temporary(first.err) {
			return first.kept, false, first.err
		}
		answered <- first
	case <-time.After(firstPatience):
	}
	if copied := c.onOthers(ctx, "ask", keptLayout{}); copied.Layout != (Layout{}) && c.admit(copied.Layout) == nil {
		return copied, true, nil
	}
	first = <-answered
	return first.kept, false, first.err
}

// copy has the other partitions of a cluster keep what partition 0 has kept. A server copies it again, where that did not go well.
func (c *layoutCheck) copy(ctx context.Context, kept keptLayout) {
	if c.keeper.InCluster() {
		c.onOthers(ctx, "copy", kept)
	}
}

// onOthers makes a call of layout.lua in the partitions but 0, on all nodes side by side, and returns the newest that
// they have kept then. It leaves out a node that does not answer soon, and asks none of partition 0's node.
func (c *layoutCheck) onOthers(ctx context.Context, mode string, from keptLayout) (newest keptLayout) {
	ctx, cancel := context.WithTimeout(ctx, copyPatience)
	defer cancel()
	var others []*Store
	for i := 1; i < max(c.own.Partitions, c.own.Before); i++ {
		s := newStore(c.router, c.keys.partition(i))
		if mode != "ask" || s.Node() != c.keeper.Node() { // who has lost as much, or answers no sooner, is not asked
			others = append(others, s)
		}
	}
	kept := make(chan keptLayout)
	byNode := ByNode(others, itself)
	for _, stores := range byNode {
		go func() {
			var best keptLayout
			call := func(i int) *Call[keptLayout] { return stores[i].layout(mode, from) }
			InTurn(ctx, stores, len(stores), call, func(_ int, one keptLayout, err error) bool {
				if err == nil && (one.version > best.version || best.Layout == Layout{}) {
					best = one
				}
				return true
			})
			kept <- best
		}()
	}
	for range byNode {
		if one := <-kept; one.version > newest.version || newest.Layout == (Layout{}) {
			newest = one
		}
	}
	return newest
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

// layout makes a call of layout.lua in that mode.
func (s *Store) layout(mode string, l keptLayout) *Call[keptLayout] {
	args := append(arguments(5, s.keys.Layout()), mode, l.Partitions, l.Before, l.version, l.most)
	return newCall(s, layoutScript, args, func(reply any) (kept keptLayout, err error) {
		_, err = scan(reply, &kept.Partitions, &kept.Before, &kept.version, &kept.most)
		return kept, err
	})
}

// admit refuses a program with another layout than the one that is kept. While jobs move on from an older one, those
// who know that one only may go on: so programs can be restarted one after the other. And so may those who
// still know of the older one when nothing is left there.
func (c *layoutCheck) admit(kept Layout) error {
	own := c.own
	if own == kept || own == (Layout{Partitions: kept.Before}) || own.Partitions == kept.Partitions && kept.Before == 0 {
		return nil
	}
	return &LayoutError{own, kept, c.keeper.keys.Layout()}
}
