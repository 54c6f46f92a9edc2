package fleet

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// DeadRange selects dead letters of a topic, and their order.
type DeadRange struct {
	Topic  string
	After  time.Time                // buried at that time or later
	Before time.Time                // buried before that time; zero: at any
	Only   func(store.Summary) bool // selects letters; nil means all
	Oldest bool                     // the oldest first, without those that die meanwhile: they might do so for ever
	Stale  bool                     // also entries whose letters are gone, or another topic's
	Whole  bool                     // bodies, errors and reasons are told whole; else nothing of bodies, and beginnings
}

// With several partitions, fewer letters of each are read at a time: mergedStep in total, but at least leastStep of each.
const deadStep, mergedStep, leastStep = 100, 400, 10

// DeadReader reads the dead letters of all partitions, a few at a time.
type DeadReader struct {
	DeadRange
	*Reader
	begun bool
}

// ReadDead returns a DeadReader. It does not call Redis yet.
func (f *Fleet) ReadDead(d DeadRange) *DeadReader {
	step := deadStep
	if n := len(f.Stores); n > 1 {
		step = min(max(mergedStep/n, leastStep), deadStep)
	}
	page := store.Browse{Topic: d.Topic, State: "dead", Jobs: step, Entries: step, After: timePlace(d.Before), Oldest: d.Oldest, Stale: d.Stale, Whole: d.Whole}
	if d.Whole {
		page.Entries = 4 * step
	}
	if d.Oldest {
		page.After = timePlace(d.After)
	}
	return &DeadReader{DeadRange: d, Reader: f.Read(page)}
}

// Next returns the next letters in order, none at the end.
func (r *DeadReader) Next(ctx context.Context) ([]Found, error) {
	if err := r.begin(ctx); err != nil {
		return nil, err
	}
	more, err := true, error(nil)
	for more && err == nil && len(r.Settled()) == 0 {
		more, err = r.More(ctx)
	}
	if err != nil {
		return nil, err
	}
	return r.Take(), nil
}

// begin finds out where to stop in each partition: at the newest letter of now, if the oldest come first.
func (r *DeadReader) begin(ctx context.Context) error {
	if r.begun {
		return nil
	}
	for _, p := range r.parts {
		p.ends = func(l store.Summary) bool { return l.At.Before(r.After) }
		if !r.Oldest {
			continue
		}
		newest, err := p.Browse(ctx, store.Browse{Topic: r.Topic, State: "dead", Jobs: 1, Entries: 1, Stale: true})
		if err != nil {
			return err
		}
		if p.ended = len(newest.Jobs) == 0; !p.ended {
			until := newest.Jobs[0].At
			p.ends = func(l store.Summary) bool { return l.At.After(until) || !r.Before.IsZero() && !l.At.Before(r.Before) }
		}
	}
	r.begun = true
	return nil
}

// EachDead calls do with the selected dead letters, some of one partition at a time. It stops at an error.
func (f *Fleet) EachDead(ctx context.Context, d DeadRange, do func(*store.Store, []store.Summary) error) error {
	for reader := f.ReadDead(d); ; {
		found, err := reader.Next(ctx)
		if err != nil || len(found) == 0 {
			return err
		}
		var letters []store.Summary
		var stores []*store.Store
		for _, l := range found {
			if d.Only == nil || d.Only(l.Summary) {
				letters, stores = append(letters, l.Summary), append(stores, l.Store)
			}
		}
		for _, of := range Divide(letters, func(i int) *store.Store { return stores[i] }) {
			if err := do(of.Store, of.Items); err != nil {
				return err
			}
		}
	}
}

// RequeueDead makes the selected dead letters ready again, the oldest first, with all their attempts. It returns how many became ready,
// also with an error. It calls kept for each letter that stays, with the reason. Selected entries whose letters are gone are dropped.
func (f *Fleet) RequeueDead(ctx context.Context, d DeadRange, kept func(id string, why error)) (done int, err error) {
	d.Oldest = true
	err = f.EachDead(ctx, d, func(s *store.Store, letters []store.Summary) error {
		errs, err := s.Requeue(ctx, idsOf(letters), store.DefaultLifetime)
		var gone []string
		for i, err := range errs {
			switch id := letters[i].ID; {
			case err == nil:
				done++
			case errors.Is(err, store.ErrNotFound): // somebody else was faster
				gone = append(gone, id)
			default:
				kept(id, err)
			}
		}
		if d.Stale && len(gone) > 0 {
			_, err = s.DropDead(ctx, d.Topic, gone, time.Time{})
		}
		return err
	})
	return done, err
}

// DropDead deletes the selected dead letters and returns how many there were, also with an error.
func (f *Fleet) DropDead(ctx context.Context, d DeadRange) (dropped int, err error) {
	err = f.EachDead(ctx, d, func(s *store.Store, letters []store.Summary) error {
		until := letters[0].At // a job that has died again since may no longer be selected
		if d.Oldest {
			until = letters[len(letters)-1].At
		}
		n, err := s.DropDead(ctx, d.Topic, idsOf(letters), until)
		dropped += n
		return err
	})
	return dropped, err
}

func idsOf(letters []store.Summary) []string {
	ids := make([]string, len(letters))
	for i, l := range letters {
		ids[i] = l.ID
	}
	return ids
}

// timePlace is the place before all letters that were buried at that time, and after all earlier ones; the
// zero time is the beginning.
func timePlace(at time.Time) store.Position {
	if at.IsZero() {
		return store.Position{}
	}
	return store.Position{At: strconv.FormatFloat(float64(at.UnixMicro())/1000, 'f', 3, 64)}
}
