package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// DeadFilter says which dead letters are meant: those to which all of it applies. What is zero
// applies to all.
type DeadFilter struct {
	Topic  string    // must be there
	Reason string    // the whole reason
	Error  string    // a part of the error
	Whole  bool      // it is all of the DeadGroup with that Reason and Error, even if these are empty
	After  time.Time // buried at that time or later
	Before time.Time // buried before that time
}

func (f DeadFilter) applies(letter store.Summary) bool {
	if f.Whole {
		return causeOf(letter.Reason, letter.Error) == causeOf(f.Reason, f.Error)
	}
	return (f.Reason == "" || letter.Reason == f.Reason) && strings.Contains(letter.Error, f.Error)
}

// CountDead is how many dead letters there are.
func (o *Inspector) CountDead(ctx context.Context, f DeadFilter) (int, error) {
	count := 0
	err := o.eachDead(ctx, f, false, func(_ *store.Store, letters []store.Summary) error {
		count += len(letters)
		return nil
	})
	return count, dead("count", f, err)
}

// RequeueDead makes ready jobs of the dead letters again, with all their attempts, the oldest
// first, and returns how many are ready now, also with an error. Those of which there is a job
// stay dead letters, and are an error (ErrKept) when all others are done. What dies meanwhile, be it
// anew, is not meant.
func (o *Inspector) RequeueDead(ctx context.Context, f DeadFilter) (int, error) {
	done, kept := 0, 0
	var why error
	err := o.eachDead(ctx, f, true, func(partition *store.Store, letters []store.Summary) error {
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
func (o *Inspector) DropDead(ctx context.Context, f DeadFilter) (int, error) {
	dropped := 0
	err := o.eachDead(ctx, f, false, func(partition *store.Store, letters []store.Summary) error {
		// One that has died again meanwhile may not be meant any more.
		n, err := partition.DropDead(ctx, f.Topic, ids(letters), letters[0].At)
		dropped += n
		return err
	})
	return dropped, dead("drop", f, err)
}

var errNoTopic = errors.New("topic is empty")

// eachDead calls do with the dead letters that are meant, some at a time: the oldest or the newest
// first.
func (o *Inspector) eachDead(ctx context.Context, f DeadFilter, oldest bool, do func(*store.Store, []store.Summary) error) error {
	if f.Topic == "" {
		return errNoTopic
	}
	r := fleet.DeadRange{Topic: f.Topic, After: f.After, Before: f.Before, Oldest: oldest}
	return o.fleet.EachDead(ctx, r, func(partition *store.Store, letters []store.Summary) error {
		letters = slices.DeleteFunc(letters, func(l store.Summary) bool { return !f.applies(l) })
		if len(letters) == 0 {
			return nil
		}
		return do(partition, letters)
	})
}

func ids(letters []store.Summary) []string {
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
