package fleet

import (
	"context"
	"fmt"
	"strings"

	"github.com/mix-basic/delayer/internal/store"
)

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
	kept, err := c.keeper.Layout("ask", store.KeptLayout{}).Do(ctx)
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
	kept, err := c.keeper.Layout("ask", store.KeptLayout{}).Do(ctx)
	if err == nil && kept.Partitions != 0 {
		c.copy(ctx, kept)
	}
	return err
}
