package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// DeadFilter selects dead letters. All conditions must hold; a zero field
// is no condition.
type DeadFilter struct {
	Topic  string               // must be there
	Reason string               // the whole reason
	Error  string               // a part of the error
	Whole  bool                 // it is all of the DeadGroup with that Reason and Error, even if these are empty
	After  time.Time            // buried at or after that time
	Before time.Time            // buried before that time
	ID     func(id string) bool // nil selects all IDs
	Most   int                  // the most letters, the oldest ones; 0: no limit
}

// Selects reports whether a dead letter of the topic is selected, regardless of Most.
func (f DeadFilter) Selects(letter Job) bool {
	switch {
	case letter.At.Before(f.After), !f.Before.IsZero() && !letter.At.Before(f.Before), f.ID != nil && !f.ID(letter.ID):
		return false
	case f.Whole:
		return causeOf(letter.Reason, letter.Error) == causeOf(f.Reason, f.Error)
	}
	return (f.Reason == "" || letter.Reason == f.Reason) && strings.Contains(letter.Error, f.Error)
}

// in returns the range of the selected dead letters.
func (f DeadFilter) in() fleet.DeadRange {
	selected := 0
	return fleet.DeadRange{Topic: f.Topic, After: f.After, Before: f.Before, Oldest: f.Most > 0, Only: func(letter store.Summary) bool {
		if f.Most > 0 && selected == f.Most || !f.Selects(letter) {
			return false
		}
		selected++
		return true
	}}
}

var errNoTopic = errors.New("topic is empty")

// CountDead counts the selected dead letters.
func (o *Inspector) CountDead(ctx context.Context, f DeadFilter) (count int, err error) {
	if err = errNoTopic; f.Topic != "" {
		err = o.fleet.EachDead(ctx, f.in(), func(_ *store.Store, letters []store.Summary) error {
			count += len(letters)
			return nil
		})
	}
	return count, dead("count", f, err)
}

// RequeueDead makes the selected dead letters ready again, with all their attempts, the oldest
// first, and returns how many became ready, also with an error. Letters whose ID has a job
// stay, and are the error (ErrKept) when all others are done. Jobs that die meanwhile, even
// again, are not selected.
func (o *Inspector) RequeueDead(ctx context.Context, f DeadFilter) (done int, err error) {
	kept := 0
	var why error
	if err = errNoTopic; f.Topic != "" {
		done, err = o.fleet.RequeueDead(ctx, f.in(), func(id string, err error) {
			kept++
			why = cmp.Or(why, fmt.Errorf("%s: %w", store.Quote(id), err))
		})
	}
	if err == nil && kept > 0 {
		err = fmt.Errorf("%d %w, as %w", kept, ErrKept, why)
	}
	return done, dead("requeue", f, err)
}

// ErrKept is returned if some dead letters cannot be requeued; it wraps the first one's reason.
var ErrKept = errors.New("stay dead letters")

// DropDead deletes the selected dead letters and returns how many there were, also with an error.
func (o *Inspector) DropDead(ctx context.Context, f DeadFilter) (dropped int, err error) {
	if err = errNoTopic; f.Topic != "" {
		dropped, err = o.fleet.DropDead(ctx, f.in())
	}
	return dropped, dead("drop", f, err)
}

// RequeueIDs makes the topic's dead letters with these IDs ready again, or only counts them. told gets each ID with its error: nil,
// ErrNotFound if the topic has no such letter, ErrExists if a job has its ID. Any other error ends it.
func (o *Inspector) RequeueIDs(ctx context.Context, topic string, ids []string, onlyCount bool, told func(id string, err error)) (done int, err error) {
	for _, id := range ids {
		at := o.fleet.Of(id)
		letter, err := at.Get(ctx, id)
		switch {
		case err != nil:
		case letter.State != Dead: // and perhaps a dead letter as well
			err = store.ErrExists
		case letter.Topic != topic:
			err = store.ErrNotFound
		}
		if !onlyCount && (err == nil || err == store.ErrExists) {
			var errs []error
			if errs, err = at.Requeue(ctx, []string{id}, store.DefaultLifetime); err == nil {
				err = errs[0]
			}
		}
		switch {
		case err == nil:
			done++
		case !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrNotFound):
			return done, dead("requeue", DeadFilter{Topic: topic}, err)
		}
		told(id, err)
	}
	return done, nil
}

// DropIDs deletes the topic's dead letters with these IDs and returns how many there were, also with an error.
func (o *Inspector) DropIDs(ctx context.Context, topic string, ids ...string) (dropped int, err error) {
	for _, theirs := range fleet.Divide(ids, func(i int) *store.Store { return o.fleet.Of(ids[i]) }) {
		for page := range slices.Chunk(theirs.Items, dropPage) {
			n, err := theirs.Store.DropDead(ctx, topic, page, time.Time{})
			if dropped += n; err != nil {
				return dropped, dead("drop", DeadFilter{Topic: topic}, err)
			}
		}
	}
	return dropped, nil
}

// dropPage is how many dead letters one script deletes.
const dropPage = 100

func dead(what string, f DeadFilter, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s dead letters of %s: %w", what, store.Quote(f.Topic), err)
}
