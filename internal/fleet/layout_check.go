package fleet

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// layoutCheck asks Redis once, before the first call, whether a program's layout is right.
// It asks again after a failure, and after a while if partition 0 did not answer.
//
// In a cluster, partition 0 alone decides on the first layout (so that one of two programs with different numbers is refused), on
// a change, and on the end of the previous one. The other partitions have copies. While partition 0's node is
// away, the newest copy can admit a program, but copies change nothing.
type layoutCheck struct {
	router redisconn.Router
	keys   store.Keys
	keeper *store.Store // partition 0 of several, without a check of its own
	single *store.Store // the only partition of one, likewise
	own    Layout
	until  time.Time // until then a copy's answer counts
}

const (
	// firstPatience is how long partition 0 may take before the copies are asked as well, and copyPatience how long these may take.
	firstPatience, copyPatience = 300 * time.Millisecond, time.Second
	// copyLasts is how long a copy's answer counts before partition 0 is asked again.
	copyLasts = time.Minute
)

func newLayoutCheck(router redisconn.Router, keys store.Keys, own Layout) *layoutCheck {
	return &layoutCheck{
		router: router, keys: keys, keeper: store.At(router, keys.Partition(0)), single: store.At(router, keys),
		own: own,
	}
}

// ask returns nil if the layout is right, a LayoutError if it is wrong, and any other error if that is unknown. The result is final
// unless it is an error or a copy's answer.
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

// askForOne is ask for a program that has always had one partition. If no layout is stored, it needs no permission beyond those of
// its calls: a user that may not ask is admitted.
func (c *layoutCheck) askForOne(ctx context.Context) (lasting bool, err error) {
	exists, err := c.keeper.HasLayout(ctx)
	switch {
	case store.KindOf(err) == store.NoAnswer:
		return false, err
	case err != nil:
		return !store.Temporary(err), nil // the call itself will meet and handle a temporary error
	case exists:
		var kept store.KeptLayout
		if kept, err = c.keeper.Layout(store.AskLayout, store.KeptLayout{}).Do(ctx); err == nil {
			err = c.admit(layoutOf(kept))
		}
	}
	return err == nil, err
}

// register stores the program's layout if that is allowed, and reports whether a copy has admitted it.
func (c *layoutCheck) register(ctx context.Context) (isCopy bool, err error) {
	kept, isCopy, err := c.kept(ctx)
	if err != nil || isCopy {
		return isCopy, err
	}
	if kept.Partitions == 0 {
		if c.keeper.InCluster() { // partition 0 may have lost it
			if lost := c.onOthers(ctx, store.AskLayout, store.KeptLayout{}); lost.Partitions != 0 {
				kept, err = c.keeper.Layout(store.CopyLayout, lost).Do(ctx)
			}
		} else if c.own.Previous == 0 {
			err = c.refuseJobsOfOne(ctx)
		}
	}
	if version := kept.Version; err == nil && layoutOf(kept) != c.own {
		kept, err = c.keeper.Layout(store.RegisterLayout, c.own.kept()).Do(ctx)
		if err == nil && kept.Version != version {
			c.copy(ctx, kept)
		}
	}
	if err == nil {
		err = c.admit(layoutOf(kept))
	}
	return false, err
}

func (c *layoutCheck) kept(ctx context.Context) (kept store.KeptLayout, isCopy bool, err error) {
	if !c.keeper.InCluster() {
		kept, err = c.keeper.Layout(store.AskLayout, store.KeptLayout{}).Do(ctx)
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
		kept, err := c.keeper.Layout(store.AskLayout, store.KeptLayout{}).Do(asking)
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
	if copied := c.onOthers(ctx, store.AskLayout, store.KeptLayout{}); copied.Partitions != 0 && c.admit(layoutOf(copied)) == nil {
		return copied, true, nil
	}
	first = <-answered
	return first.kept, false, first.err
}

// copy stores partition 0's layout in the other partitions of a cluster. A server repeats it where it failed.
func (c *layoutCheck) copy(ctx context.Context, kept store.KeptLayout) {
	if c.keeper.InCluster() {
		c.onOthers(ctx, store.CopyLayout, kept)
	}
}

// onOthers calls layout.lua in all partitions except 0, on all nodes in parallel, and returns the newest layout
// that they have stored. It skips nodes that do not answer soon, and when it asks, partition 0's node.
func (c *layoutCheck) onOthers(ctx context.Context, mode store.LayoutMode, from store.KeptLayout) (newest store.KeptLayout) {
	ctx, cancel := context.WithTimeout(ctx, copyPatience)
	defer cancel()
	var others []*store.Store
	for i := 1; i < max(c.own.Partitions, c.own.Previous); i++ {
		s := store.At(c.router, c.keys.Partition(i))
		if mode != store.AskLayout || s.Node() != c.keeper.Node() { // partition 0's node knows no more and answers no sooner
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

// refuseJobsOfOne fails if there are jobs of a single partition, which a program with several would not see. A user that may not
// check is trusted.
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

func (l Layout) kept() store.KeptLayout {
	return store.KeptLayout{Partitions: l.Partitions, Previous: l.Previous}
}

func layoutOf(kept store.KeptLayout) Layout { return Layout{kept.Partitions, kept.Previous} }

// admit refuses a program whose layout differs from the stored one. While jobs migrate, programs with the previous
// layout may go on, so that programs can be restarted one after the other. So may programs that
// still name the previous layout when nothing is left there.
func (c *layoutCheck) admit(kept Layout) error {
	own := c.own
	if own == kept || own == (Layout{Partitions: kept.Previous}) || own.Partitions == kept.Partitions && kept.Previous == 0 {
		return nil
	}
	return &LayoutError{own, kept, c.keeper.Keys().Layout()}
}

// Stray is a group of jobs and dead letters that no program of the present layout reads. They were pushed by a program with another layout that
// could not be refused: a client of the original, which knows one partition only, or a program that hung while the layout changed.
type Stray struct {
	Partitions int // of that program
	Jobs       int
	AtLeast    bool // there may be more
}

// Command returns the command that migrates them.
func (s Stray) Command() string {
	return fmt.Sprintf("DELAYER_REDIS_PREVIOUS_PARTITIONS=%d delayer migrate", s.Partitions)
}

// String describes them in a line.
func (s Stray) String() string {
	return fmt.Sprintf("nobody looks for %s that a program with %s has pushed; replace that program, and migrate them: %s", s.count(), many(s.Partitions), s.Command())
}

// InWords describes all of them in a line.
func InWords(strays []Stray) string {
	var says []string
	for _, s := range strays {
		says = append(says, s.String())
	}
	return strings.Join(says, "; ")
}

func (s Stray) count() string {
	text := fmt.Sprintf("%d jobs", s.Jobs)
	if s.Jobs == 1 {
		text = "1 job"
	}
	if s.AtLeast {
		text = "at least " + text
	}
	return text
}

// straysAtOnce is how many partitions of a node are checked for stray jobs together.
const straysAtOnce = 16

// Strays finds stray jobs: in the keys of a single partition if there are several, and in partitions of earlier layouts. It costs
// one script, and one for each of these partitions. It fails with a LayoutError if the stored layout has changed.
func (f *Fleet) Strays(ctx context.Context) ([]Stray, error) {
	c := f.check
	if err := f.admission.Pass(ctx); err != nil {
		return nil, err
	}
	kept, err := c.keeper.Layout(store.AskLayout, store.KeptLayout{}).Do(ctx)
	if err != nil || kept.Partitions == 0 {
		return nil, err
	}
	if err := c.admit(layoutOf(kept)); err != nil || kept.Partitions != c.own.Partitions { // otherwise other programs read where f does not
		return nil, err
	}
	looked := map[store.Keys]bool{}
	for _, s := range f.Stores {
		looked[s.Keys()] = true
	}
	var all []Stray
	for _, partitions := range []int{1, max(kept.Most, kept.Partitions)} {
		if partitions == 1 && c.keeper.InCluster() {
			continue
		}
		found := Stray{Partitions: partitions}
		var stores []*store.Store
		for _, keys := range (Layout{Partitions: partitions}).keys(c.keys) {
			if !looked[keys] {
				stores = append(stores, store.At(c.router, keys))
			}
		}
		store.InTurn(ctx, stores, straysAtOnce, func(i int) *store.Call[store.CountedStray] { return stores[i].CountStray() }, func(_ int, one store.CountedStray, wrong error) bool {
			found.Jobs, found.AtLeast = found.Jobs+one.Jobs, found.AtLeast || one.AtLeast || wrong != nil
			if !store.Refused(wrong) { // a user that may not check is trusted
				err = wrong
			}
			return err == nil
		})
		if found.Jobs > 0 {
			all = append(all, found)
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// CopyLayout copies partition 0's layout to those other partitions of a cluster that lack it.
func (f *Fleet) CopyLayout(ctx context.Context) error {
	c := f.check
	if !c.keeper.InCluster() {
		return nil
	}
	kept, err := c.keeper.Layout(store.AskLayout, store.KeptLayout{}).Do(ctx)
	if err == nil && kept.Partitions != 0 {
		c.copy(ctx, kept)
	}
	return err
}
