package fleet

import (
	"cmp"
	"context"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// DeadRange says which of a topic's dead letters are meant, and in which order.
type DeadRange struct {
	Topic  string
	After  time.Time // buried at that time or later
	Before time.Time // buried before that time; zero: at any
	Oldest bool      // the oldest first, without those that die meanwhile: they might do so for ever
	Stale  bool      // also entries whose letters are gone, or another topic's
	Whole  bool      // bodies, errors and reasons are told whole; else nothing of bodies, and beginnings
}

// deadStep is how many dead letters are looked at a time.
const deadStep = 100

// DeadReader reads dead letters of all partitions, some at a time.
type DeadReader struct {
	DeadRange
	of []*deadPages
}

// DeadOf are some dead letters of one partition.
type DeadOf struct {
	*store.Store
	Letters []store.Summary
}

// ReadDead begins to read. Redis is not asked yet.
func (f *Fleet) ReadDead(r DeadRange) *DeadReader {
	reader := &DeadReader{DeadRange: r}
	for _, s := range f.Stores {
		reader.of = append(reader.of, newDeadPages(s, r, len(f.Stores)))
	}
	return reader
}

// Next are the next letters, of each partition in their order: of all partitions none comes behind any of a later
// call. There are none at the end.
func (r *DeadReader) Next(ctx context.Context) (step []DeadOf, err error) {
	var last *store.Summary // the letters up to this one come before all that were not read yet
	for _, d := range r.of {
		if err := d.fill(ctx); err != nil {
			return nil, err
		}
		if n := len(d.page); !d.ended && (last == nil || r.compare(d.page[n-1], *last) < 0) {
			last = &d.page[n-1]
		}
	}
	for _, d := range r.of {
		if letters := d.upTo(last); len(letters) > 0 {
			step = append(step, DeadOf{d.Store, letters})
		}
	}
	return step, nil
}

// InOrder are the letters of a step in the order of all partitions.
func (r *DeadReader) InOrder(step []DeadOf) []store.Summary {
	if len(step) == 1 {
		return step[0].Letters
	}
	var all []store.Summary
	for _, of := range step {
		all = append(all, of.Letters...)
	}
	slices.SortStableFunc(all, r.compare)
	return all
}

// EachDead calls do with the dead letters, some of one partition at a time, as Next gives them. An error ends it.
func (f *Fleet) EachDead(ctx context.Context, r DeadRange, do func(*store.Store, []store.Summary) error) error {
	for reader := f.ReadDead(r); ; {
		step, err := reader.Next(ctx)
		if err != nil || len(step) == 0 {
			return err
		}
		for _, of := range step {
			if err := do(of.Store, of.Letters); err != nil {
				return err
			}
		}
	}
}

// compare is below 0 if a comes first.
func (r DeadRange) compare(a, b store.Summary) int {
	if r.Oldest {
		return cmp.Or(a.At.Compare(b.At), strings.Compare(a.ID, b.ID))
	}
	return cmp.Or(b.At.Compare(a.At), strings.Compare(b.ID, a.ID))
}

// deadPages are the pages of one partition's dead letters.
type deadPages struct {
	*store.Store
	DeadRange
	next   store.Browse
	newest time.Time       // when the last one was buried that was there in the beginning, if the oldest come first
	page   []store.Summary // what was read and not yet told
	begun  bool
	ended  bool // there is no more to read
}

// Of several partitions fewer letters are read of each at a time: mergedStep of all, but leastStep of each.
const mergedStep, leastStep = 400, 10

func newDeadPages(s *store.Store, r DeadRange, partitions int) *deadPages {
	step := deadStep
	if partitions > 1 {
		step = min(max(mergedStep/partitions, leastStep), deadStep)
	}
	d := &deadPages{Store: s, DeadRange: r}
	d.next = store.Browse{Topic: r.Topic, State: "dead", Jobs: step, Entries: step, After: timePlace(r.Before), Stale: r.Stale, Whole: r.Whole}
	if r.Whole {
		d.next.Entries = 4 * step
	}
	if r.Oldest {
		d.next.After, d.next.Oldest = timePlace(r.After), true
	}
	return d
}

// begin finds out up to which letter to read, if the oldest come first.
func (d *deadPages) begin(ctx context.Context) error {
	if d.begun || !d.Oldest {
		return nil
	}
	newest, err := d.Browse(ctx, store.Browse{Topic: d.Topic, State: "dead", Jobs: 1, Entries: 1, Stale: true})
	if err != nil {
		return err
	}
	d.begun, d.ended = true, len(newest.Jobs) == 0
	if !d.ended {
		d.newest = newest.Jobs[0].At
	}
	return nil
}

func (d *deadPages) isBeyond(l store.Summary) bool {
	if !d.Oldest {
		return l.At.Before(d.After)
	}
	return l.At.After(d.newest) || !d.Before.IsZero() && !l.At.Before(d.Before)
}

// fill reads until there is a letter to tell, or no more.
func (d *deadPages) fill(ctx context.Context) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	for len(d.page) == 0 && !d.ended {
		page, err := d.Browse(ctx, d.next)
		if err != nil {
			return err
		}
		all := len(page.Jobs)
		d.page = slices.DeleteFunc(page.Jobs, d.isBeyond)
		d.next.After = page.Last
		d.ended = page.Last == (store.Place{}) || len(d.page) < all // the others are beyond, too
	}
	return nil
}

// upTo takes the letters that were read up to the last one; nil is behind all.
func (d *deadPages) upTo(last *store.Summary) []store.Summary {
	n := len(d.page)
	if last != nil {
		n = sort.Search(n, func(i int) bool { return d.compare(d.page[i], *last) > 0 })
	}
	letters := d.page[:n]
	d.page = d.page[n:]
	return letters
}

// timePlace stands before all letters that were buried at that time, and behind all before it; the
// zero time's is the beginning.
func timePlace(at time.Time) store.Place {
	if at.IsZero() {
		return store.Place{}
	}
	return store.Place{At: strconv.FormatFloat(float64(at.UnixMicro())/1000, 'f', 3, 64)}
}
