package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// DeadFilter says which dead letters are meant: those to which all of it applies. What is zero
// applies to all.
type DeadFilter struct {
	Topic  string    // must be there
	Reason string    // the whole reason
	Error  string    // a part of the error
	Whole  bool      // Reason and Error are all of them, as a DeadGroup has them, even if empty
	After  time.Time // buried at that time or later
	Before time.Time // buried before that time
}

func (f DeadFilter) applies(letter store.Sight) bool {
	if f.Whole {
		return letter.Reason == f.Reason && letter.Error == f.Error
	}
	return (f.Reason == "" || letter.Reason == f.Reason) && strings.Contains(letter.Error, f.Error)
}

// deadStep is how many dead letters are looked at, requeued or dropped at a time.
const deadStep = 100

// CountDead is how many dead letters there are.
func (o *Operator) CountDead(ctx context.Context, f DeadFilter) (int, error) {
	count := 0
	err := o.eachDead(ctx, f, func(_ *store.Store, letters []store.Sight) error {
		count += len(letters)
		return nil
	})
	return count, dead("count", f, err)
}

// RequeueDead makes ready jobs of the dead letters again, with all their attempts, the oldest
// first, and returns how many are ready now, also with an error. Those of which there is a job
// stay dead letters, and are an error (ErrKept) when all others are done. What dies meanwhile, be it
// anew, is not meant.
func (o *Operator) RequeueDead(ctx context.Context, f DeadFilter) (int, error) {
	done, kept := 0, 0
	var why error
	err := o.eachOldDead(ctx, f, func(partition *store.Store, letters []store.Sight) error {
		errs, err := partition.Requeue(ctx, ids(letters), client.DefaultReadyMaxLifetime)
		for i, err := range errs {
			switch {
			case err == nil:
				done++
			case !errors.Is(err, store.ErrNotFound): // somebody else was faster
				kept++
				why = cmp.Or(why, fmt.Errorf("%s: %w", store.Quote(letters[i].ID), err))
			}
		}
		return err
	})
	if err == nil && kept > 0 {
		err = fmt.Errorf("%d %w, as %w", kept, ErrKept, why)
	}
	return done, dead("requeue", f, err)
}

// ErrKept is returned if some dead letters can't be requeued; the first one's reason is behind it.
var ErrKept = errors.New("stay dead letters")

// DropDead deletes the dead letters, and returns how many there were, also with an error.
func (o *Operator) DropDead(ctx context.Context, f DeadFilter) (int, error) {
	dropped := 0
	err := o.eachDead(ctx, f, func(partition *store.Store, letters []store.Sight) error {
		// One that has died again meanwhile may not be meant any more.
		n, err := partition.DropDead(ctx, f.Topic, ids(letters), letters[0].At)
		dropped += n
		return err
	})
	return dropped, dead("drop", f, err)
}

// eachDead calls do with the dead letters that are meant, the newest first, some at a time.
func (o *Operator) eachDead(ctx context.Context, f DeadFilter, do func(*store.Store, []store.Sight) error) error {
	return o.inPartitions(f, func(partition *store.Store) error {
		newest := store.Browse{After: place(f.Before)}
		return deadPages(ctx, partition, f, newest, do, func(l store.Sight) bool { return l.At.Before(f.After) })
	})
}

// eachOldDead is eachDead, but the oldest first, and without those that die after it has begun: it would
// not end where the jobs that do makes of them die again at once.
func (o *Operator) eachOldDead(ctx context.Context, f DeadFilter, do func(*store.Store, []store.Sight) error) error {
	return o.inPartitions(f, func(partition *store.Store) error {
		// The newest entry, even if it is no letter.
		look, err := partition.Browse(ctx, store.Browse{Topic: f.Topic, State: Dead, Jobs: 1, Entries: 1})
		if err != nil || look.Last == (store.Place{}) {
			return err
		}
		newest, err := strconv.ParseFloat(look.Last.At, 64)
		if err != nil {
			return err
		}
		oldest := store.Browse{After: place(f.After), Oldest: true}
		return deadPages(ctx, partition, f, oldest, do, func(l store.Sight) bool {
			return float64(l.At.UnixMilli()) > newest || !f.Before.IsZero() && !l.At.Before(f.Before)
		})
	})
}

func (o *Operator) inPartitions(f DeadFilter, do func(*store.Store) error) error {
	if f.Topic == "" {
		return errors.New("topic is empty")
	}
	for _, partition := range o.partitions {
		if err := do(partition); err != nil {
			return err
		}
	}
	return nil
}

// deadPages calls do with those of the letters from b.After on that are meant, some at a time,
// until one is beyond them.
func deadPages(ctx context.Context, partition *store.Store, f DeadFilter, b store.Browse, do func(*store.Store, []store.Sight) error, isBeyond func(store.Sight) bool) error {
	b.Topic, b.State, b.Jobs, b.Entries = f.Topic, Dead, deadStep, deadStep
	for begins := true; begins || b.After != (store.Place{}); begins = false {
		look, err := partition.Browse(ctx, b)
		if err != nil {
			return err
		}
		b.After = look.Last
		letters := slices.DeleteFunc(slices.Clone(look.Jobs), isBeyond)
		if len(letters) < len(look.Jobs) {
			b.After = store.Place{} // so are the others
		}
		letters = slices.DeleteFunc(letters, func(l store.Sight) bool { return !f.applies(l) })
		if len(letters) == 0 {
			continue
		}
		if err := do(partition, letters); err != nil {
			return err
		}
	}
	return nil
}

// place stands before all letters that were buried at that time, and behind all before it; the zero
// time's is the beginning.
func place(at time.Time) store.Place {
	if at.IsZero() {
		return store.Place{}
	}
	return store.Place{At: strconv.FormatFloat(float64(at.UnixMicro())/1000, 'f', 3, 64)}
}

func ids(letters []store.Sight) []string {
	list := make([]string, len(letters))
	for i, l := range letters {
		list[i] = l.ID
	}
	return list
}

func dead(what string, f DeadFilter, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s dead letters of %s: %w", what, store.Quote(f.Topic), err)
}
