package store

import (
	"context"
	"slices"
	"strconv"
	"time"
)

// DeadRange says which of a topic's dead letters are meant, and in which order.
type DeadRange struct {
	Topic  string
	After  time.Time // buried at that time or later
	Before time.Time // buried before that time; zero: at any
	Oldest bool      // the oldest first, without those that die meanwhile: they might do so for ever
	Stale  bool      // also entries whose letters are gone, or another topic's
}

// deadStep is how many dead letters are looked at a time.
const deadStep = 100

// EachDead calls do with the dead letters, some at a time, the newest first. An error ends it.
func (s *Store) EachDead(ctx context.Context, r DeadRange, do func([]Summary) error) error {
	b := Browse{Topic: r.Topic, State: "dead", Jobs: deadStep, Entries: deadStep, After: timePlace(r.Before), Stale: r.Stale}
	isBeyond := func(l Summary) bool { return l.At.Before(r.After) }
	if r.Oldest {
		newest, err := s.Browse(ctx, Browse{Topic: r.Topic, State: "dead", Jobs: 1, Entries: 1, Stale: true})
		if err != nil || len(newest.Jobs) == 0 {
			return err
		}
		b.After, b.Oldest = timePlace(r.After), true
		isBeyond = func(l Summary) bool {
			return l.At.After(newest.Jobs[0].At) || !r.Before.IsZero() && !l.At.Before(r.Before)
		}
	}
	for begins := true; begins || b.After != (Place{}); begins = false {
		page, err := s.Browse(ctx, b)
		if err != nil {
			return err
		}
		all := len(page.Jobs)
		letters := slices.DeleteFunc(page.Jobs, isBeyond)
		if b.After = page.Last; len(letters) < all {
			b.After = Place{} // the others are beyond, too
		}
		if len(letters) == 0 {
			continue
		}
		if err := do(letters); err != nil {
			return err
		}
	}
	return nil
}

// timePlace stands before all letters that were buried at that time, and behind all before it; the
// zero time's is the beginning.
func timePlace(at time.Time) Place {
	if at.IsZero() {
		return Place{}
	}
	return Place{At: strconv.FormatFloat(float64(at.UnixMicro())/1000, 'f', 3, 64)}
}
