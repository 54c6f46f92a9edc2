package fleet

import (
	"context"
	"time"

	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// layoutCheck asks Redis once, before anything else is done, whether a program's layout is right.
// It asks again if that failed, and after a while if partition 0 did not answer.
//
// In a cluster partition 0 alone decides: on a first layout, so that of two who come with different numbers one is refused, on
// another one, and on the end of the one before. The other partitions have copies. While the node of partition 0 is
// away the newest of these admits a program, but none changes anything.
type layoutCheck struct {
	router redisconn.Router
	keys   store.Keys
	keeper *store.Store // partition 0 of several, without a check of its own
	single *store.Store // the only partition of one, likewise
	own    Layout
	until  time.Time // a copy admits the program
}

const (
	// firstPatience is how long partition 0 may take before the others are asked, too, and copyPatience how long these may take.
	firstPatience, copyPatience = 300 * time.Millisecond, time.Second
	// copyLasts is for how long a copy admits a program before partition 0 is asked again.
	copyLasts = time.Minute
)

func newLayoutCheck(router redisconn.Router, keys store.Keys, own Layout) *layoutCheck {
	return &layoutCheck{
		router: router, keys: keys, keeper: store.At(router, keys.Partition(0)), single: store.At(router, keys),
		own: own,
	}
}

// ask returns nil if the layout is right, a LayoutError if it is wrong, and any other error if it can't be told. What it returns is lasting,
// unless that is an error or the answer of a copy.
func (c *layoutCheck) ask(ctx context.Context) (lasting bool, err error) {
	if time.Now().Before(c.until) {
		return false, nil
	}
	if c.own == (Layout{Partitions: 1}) {
		return c.askForOne(ctx)
	}
	isCopy, err := c.register(ctx)
	if isCopy && err == nil {
		c.until = time.Now().Add(copyLasts)
	}
	return err == nil && !isCopy, err
}

// askForOne is ask for a program that never had but one partition. Where no layout was ever kept it needs no permission beyond what
// its calls need: a user who may not ask is let in.
func (c *layoutCheck) askForOne(ctx context.Context) (lasting bool, err error) {
	exists, err := c.keeper.HasLayout(ctx)
	switch {
	case store.KindOf(err) == store.NoAnswer:
		return false, err
	case err != nil:
		return !store.Temporary(err), nil // what is temporary the call meets, too, and knows what to do about it
	case exists:
		var kept store.KeptLayout
		if kept, err = c.keeper.Layout("ask", store.KeptLayout{}).Do(ctx); err == nil {
			err = c.admit(layoutOf(kept))
		}
	}
	return err == nil, err
}

// register makes Redis keep the program's layout, if it may, and reports whether it was a copy that has admitted it.
func (c *layoutCheck) register(ctx context.Context) (isCopy bool, err error) {
	kept, isCopy, err := c.kept(ctx)
	if err != nil || isCopy {
		return isCopy, err
	}
	if kept.Partitions == 0 {
		if c.keeper.InCluster() { // what partition 0 has lost is restored
			if lost := c.onOthers(ctx, "ask", store.KeptLayout{}); lost.Partitions != 0 {
				kept, err = c.keeper.Layout("copy", lost).Do(ctx)
			}
		} else if c.own.Previous == 0 {
			err = c.refuseJobsOfOne(ctx)
		}
	}
	if version := kept.Version; err == nil && layoutOf(kept) != c.own {
		kept, err = c.keeper.Layout("enter", c.own.kept()).Do(ctx)
		if err == nil && kept.Version != version {
			c.copy(ctx, kept)
		}
	}
	if err == nil {
		err = c.admit(layoutOf(kept))
	}
	return false, err
}

// kept is what partition 0 has kept. If that does not answer soon a copy will do that admits the program.
func (c *layoutCheck) kept(ctx context.Context) (kept store.KeptLayout, isCopy bool, err error) {
	if !c.keeper.InCluster() {
		kept, err = c.keeper.Layout("ask", store.KeptLayout{}).Do(ctx)
		return kept, false, err
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	type answer struct {
		kept store.KeptLayout
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		kept, err := c.keeper.Layout("ask", store.KeptLayout{}).Do(asking)
		answered <- answer{kept, err}
	}()
	var first answer
	select {
	case first = <-answered:
		if first.err == nil || !store.Temporary(first.err) {
			return first.kept, false, first.err
		}
		answered <- first
	case <-time.After(firstPatience):
	}
	if copied := c.onOthers(ctx, "ask", store.KeptLayout{}); copied.Partitions != 0 && c.admit(layoutOf(copied)) == nil {
		return copied, true, nil
	}
	first = <-answered
	return first.kept, false, first.err
}

// copy has the other partitions of a cluster keep what partition 0 has kept. A server copies it again, where that did not go well.
func (c *layoutCheck) copy(ctx context.Context, kept store.KeptLayout) {
	if c.keeper.InCluster() {
		c.onOthers(ctx, "copy", kept)
	}
}

// onOthers makes a call of layout.lua in the partitions but 0, on all nodes side by side, and returns the newest that
// they have kept then. It leaves out a node that does not answer soon, and asks none of partition 0's node.
func (c *layoutCheck) onOthers(ctx context.Context, mode string, from store.KeptLayout) (newest store.KeptLayout) {
	ctx, cancel := context.WithTimeout(ctx, copyPatience)
	defer cancel()
	var others []*store.Store
	for i := 1; i < max(c.own.Partitions, c.own.Previous); i++ {
		s := store.At(c.router, c.keys.Partition(i))
		if mode != "ask" || s.Node() != c.keeper.Node() { // partition 0's node has lost as much, or answers no sooner
			others = append(others, s)
		}
	}
	byNode := store.ByNode(others, func(s *store.Store) *store.Store { return s })
	kept := make(chan store.KeptLayout)
	for _, stores := range byNode {
		go func() {
			var best store.KeptLayout
			call := func(i int) *store.Call[store.KeptLayout] { return stores[i].Layout(mode, from) }
			store.InTurn(ctx, stores, len(stores), call, func(_ int, one store.KeptLayout, err error) bool {
				if err == nil && (one.Version > best.Version || best.Partitions == 0) {
					best = one
				}
				return true
			})
			kept <- best
		}()
	}
	for range byNode {
		if one := <-kept; one.Version > newest.Version || newest.Partitions == 0 {
			newest = one
		}
	}
	return newest
}

// refuseJobsOfOne fails if there are jobs of a single partition: whoever has several would not see them. A user who may not
// know has to know himself.
func (c *layoutCheck) refuseJobsOfOne(ctx context.Context) error {
	size, err := c.single.Size(ctx)
	if size > 0 {
		return &LayoutError{c.own, Layout{Partitions: 1}, c.single.Keys().JobPool()}
	}
	if store.Refused(err) {
		return nil
	}
	return err
}

// kept is the layout as Redis is told it.
func (l Layout) kept() store.KeptLayout {
	return store.KeptLayout{Partitions: l.Partitions, Previous: l.Previous}
}

func layoutOf(kept store.KeptLayout) Layout { return Layout{kept.Partitions, kept.Previous} }

// admit refuses a program with another layout than the one that is kept. While jobs move on from an older one, those
// who know that one only may go on: so programs can be restarted one after the other. And so may those who
// still know of the older one when nothing is left there.
func (c *layoutCheck) admit(kept Layout) error {
	own := c.own
	if own == kept || own == (Layout{Partitions: kept.Previous}) || own.Partitions == kept.Partitions && kept.Previous == 0 {
		return nil
	}
	return &LayoutError{own, kept, c.keeper.Keys().Layout()}
}
