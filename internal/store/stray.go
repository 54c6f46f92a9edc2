package store

import (
	"context"
	"fmt"
	"strings"
)

var strayScript = newScript("stray")

// strayTopics is how many topics of a partition are looked at for stray jobs, which takes Redis a fraction of a millisecond.
const strayTopics = 200

// Stray are jobs and dead letters that lie where no program of the present layout looks. A program of another one has pushed them that
// can't be refused: a client of the original, which knows a single partition only, or one that hung while the layout changed.
type Stray struct {
	Partitions int // that the program has
	Jobs       int
	AtLeast    bool // there may be more
}

// Command migrates them.
func (s Stray) Command() string {
	return fmt.Sprintf("DELAYER_REDIS_PREVIOUS_PARTITIONS=%d delayer migrate", s.Partitions)
}

// String says it in a line.
func (s Stray) String() string {
	return fmt.Sprintf("nobody looks for %s that a program with %s has pushed; replace that program, and migrate them: %s", s.count(), many(s.Partitions), s.Command())
}

// InWords says all of them in a line.
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

// Strays looks for stray jobs: in the keys of a single partition where there are several, and in partitions that there once were. It costs
// a script, and one for each of these partitions, and fails with a LayoutError if the layout is not that of the partitions any more.
func (p Partitions) Strays(ctx context.Context) ([]Stray, error) {
	c := p[0].layoutCheck
	if c == nil {
		return nil, nil
	}
	if err := c.pass(ctx); err != nil {
		return nil, err
	}
	kept, err := c.keeper.layout("ask", keptLayout{}).Do(ctx)
	if err != nil || kept.Layout == (Layout{}) {
		return nil, err
	}
	if err := c.admit(kept.Layout); err != nil || kept.Partitions != c.own.Partitions { // else others look where p does not
		return nil, err
	}
	looked := map[Keys]bool{}
	for _, s := range p {
		looked[s.keys] = true
	}
	var all []Stray
	for _, partitions := range []int{1, max(kept.most, kept.Partitions)} {
		if partitions == 1 && c.keeper.InCluster() {
			continue
		}
		found := Stray{Partitions: partitions}
		var stores []*Store
		for _, keys := range (Layout{Partitions: partitions}).keys(c.keys) {
			if !looked[keys] {
				stores = append(stores, newStore(c.router, keys))
			}
		}
		InTurn(ctx, stores, manyCalls, func(i int) *Call[Stray] { return stores[i].stray() }, func(_ int, one Stray, wrong error) bool {
			found.Jobs, found.AtLeast = found.Jobs+one.Jobs, found.AtLeast || one.AtLeast || wrong != nil
			if !Refused(wrong) { // a user who may not look has to know himself
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

// stray counts what the partition has, about.
func (s *Store) stray() *Call[Stray] {
	args := append(arguments(1, s.keys.JobPool()), strayTopics)
	return newCall(s, strayScript, args, func(reply any) (found Stray, err error) {
		_, err = scan(reply, &found.Jobs, &found.AtLeast)
		return found, err
	})
}

// CopyLayout has the other partitions of a cluster keep what partition 0 has kept, as far as they do not.
func (p Partitions) CopyLayout(ctx context.Context) error {
	c := p[0].layoutCheck
	if !c.keeper.InCluster() {
		return nil
	}
	kept, err := c.keeper.layout("ask", keptLayout{}).Do(ctx)
	if err == nil && kept.Layout != (Layout{}) {
		c.copy(ctx, kept)
	}
	return err
}
