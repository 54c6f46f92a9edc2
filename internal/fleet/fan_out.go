package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
)

// Chunk is a part of a call's items, which go to one partition together.
type Chunk[T any] struct {
	Store  *store.Store
	Items  []T
	Places []int // their places among all items
}

// Divide divides the items among the partitions; where returns an item's partition. Each partition gets one chunk, however large.
// The only chunk of a single partition shares its items with the caller, and neither may change them.
func Divide[T any](items []T, where func(i int) *store.Store) []Chunk[T] {
	stores, places, sizes := make([]*store.Store, len(items)), make([]int, len(items)), map[*store.Store]int{}
	for i := range items {
		stores[i], places[i] = where(i), i
		sizes[stores[i]]++
	}
	if len(sizes) == 1 {
		return []Chunk[T]{{stores[0], items, places}}
	}
	var chunks []Chunk[T]
	of := map[*store.Store]int{} // the partitions' places among the chunks
	for i, s := range stores {
		k, known := of[s]
		if !known {
			k = len(chunks)
			of[s], chunks = k, append(chunks, Chunk[T]{s, make([]T, 0, sizes[s]), make([]int, 0, sizes[s])})
		}
		c := &chunks[k]
		c.Items, c.Places = append(c.Items, items[i]), append(c.Places, i)
	}
	return chunks
}

// Chunks divides the items among the partitions, and each partition's items, in order, into single calls to Redis. All
// partitions' first chunks come first.
func Chunks[T any](kind batch.Kind[T], items []T, where func(i int) *store.Store) []Chunk[T] {
	var rows [][]Chunk[T]
	for _, all := range Divide(items, where) {
		for row, some := range kind.Chunks(all.Items) {
			if row == len(rows) {
				rows = append(rows, nil)
			}
			rows[row] = append(rows[row], Chunk[T]{all.Store, some, all.Places[:len(some)]})
			all.Places = all.Places[len(some):]
		}
	}
	return slices.Concat(rows...)
}

// storesOf returns the chunks' partitions.
func storesOf[T any](chunks []Chunk[T]) []*store.Store {
	stores := make([]*store.Store, len(chunks))
	for i, c := range chunks {
		stores[i] = c.Store
	}
	return stores
}

// chunksAtOnce is how many chunks are in flight to a Redis if they belong to several partitions, and are therefore small. Chunks
// of one partition go one at a time, so that it is known exactly what has failed.
const chunksAtOnce = 4

// DoAll does many items in the partitions that where returns, chunk by chunk, and returns an error for each. An error from Redis
// concerns one chunk; any other concerns all later ones on the same connection.
func DoAll[T any](ctx context.Context, kind batch.Kind[T], items []T, where func(i int) *store.Store) []error {
	errs, chunks := make([]error, len(items)), Chunks(kind, items, where)
	stores := storesOf(chunks)
	atOnce := chunksAtOnce
	if !slices.ContainsFunc(stores, func(s *store.Store) bool { return s != stores[0] }) {
		atOnce = 1
	}
	call := func(i int) *store.Call[[]error] { return kind.Call(stores[i], chunks[i].Items) }
	InTurn(ctx, stores, atOnce, call, func(i int, each []error, err error) {
		for k, place := range chunks[i].Places {
			if errs[place] = err; err == nil {
				errs[place] = each[k]
			}
		}
	})
	return errs
}

// PausesAtOnce is how many partitions of a Redis are called together. Steps of pauses share the limits of one script.
const PausesAtOnce = 8

// everywhere makes calls in each partition until answered says that there is no more. Partitions do not stop each other. done describes the
// operation in the error, which says in how many partitions it is done.
func everywhere[T any](ctx context.Context, f *Fleet, done string, call func(i int, s *store.Store) *store.Call[T], answered func(i int, answer T) (more bool)) error {
	failed := make([]error, len(f.Stores))
	var places []int
	for i := range f.Stores {
		places = append(places, i)
	}
	for len(places) > 0 {
		var again []int
		stores := make([]*store.Store, len(places))
		for k, i := range places {
			stores[k] = f.Stores[i]
		}
		InTurn(ctx, stores, PausesAtOnce, func(k int) *store.Call[T] { return call(places[k], stores[k]) }, func(k int, answer T, err error) {
			if i := places[k]; err != nil {
				failed[i] = f.named(i, err)
			} else if answered(i, answer) {
				again = append(again, i)
			}
		})
		slices.Sort(again)
		places = again
	}
	errs, n := slices.DeleteFunc(failed, func(err error) bool { return err == nil }), len(f.Stores)
	switch {
	case len(errs) == 0:
		return nil
	case n == 1:
		return errs[0]
	}
	return fmt.Errorf("%s in %d of %d partitions; to do it again does the rest: %w", done, n-len(errs), n, errors.Join(errs[:min(len(errs), 3)]...))
}

// once makes everywhere make one call for each partition.
func once[T any](int, T) (more bool) { return false }

// Pause pauses the topic in all partitions, see Store.Pause. An error names the partitions in which it is not paused; in the others it is. Pausing
// again completes it.
func (f *Fleet) Pause(ctx context.Context, topic string, d time.Duration, note string) error {
	return everywhere(ctx, f, "paused", func(_ int, s *store.Store) *store.Call[struct{}] { return s.Pause(topic, d, note) }, once[struct{}])
}

// PauseAnew is Pause, but returns false and changes nothing if an operator has paused the topic with another end or note. The first partition decides,
// so that one of two operators wins in all.
func (f *Fleet) PauseAnew(ctx context.Context, topic string, d time.Duration, note string) (paused bool, err error) {
	if paused, err = f.Stores[0].PauseAnew(topic, d, note).Do(ctx); err != nil {
		return false, f.named(0, err)
	}
	if !paused || len(f.Stores) == 1 {
		return paused, nil
	}
	return true, f.Pause(ctx, topic, d, note)
}

// Throttle throttles the topic in all partitions, see Store.Throttle.
func (f *Fleet) Throttle(ctx context.Context, topic string, d time.Duration) error {
	return everywhere(ctx, f, "throttled", func(_ int, s *store.Store) *store.Call[struct{}] { return s.Throttle(topic, d) }, once[struct{}])
}

// Resume resumes the topic in all partitions and reports whether it was paused in any.
func (f *Fleet) Resume(ctx context.Context, topic string) (wasPaused bool, err error) {
	step := func(_ int, s *store.Store) *store.Call[store.Resumed] {
		return s.Resume(topic, min(len(f.Stores), PausesAtOnce))
	}
	err = everywhere(ctx, f, "resumed", step, func(_ int, r store.Resumed) (more bool) {
		wasPaused = wasPaused || r.WasPaused
		return r.More
	})
	return wasPaused, err
}

// Paused returns the topics that are paused in any partition, sorted by name.
func (f *Fleet) Paused(ctx context.Context) ([]store.Pause, error) {
	var all []store.Pause
	at := slices.Repeat([]string{"0"}, len(f.Stores))
	page := func(i int, s *store.Store) *store.Call[store.PausedPage] { return s.PausedFrom(at[i]) }
	err := everywhere(ctx, f, "asked", page, func(i int, page store.PausedPage) (more bool) {
		all, at[i] = append(all, page.Pauses...), page.Next
		return page.Next != "0"
	})
	return store.JoinPauses(all), err
}

// Schedules returns the schedules of all partitions, sorted by name. With an error they are
// those of the readable partitions.
func (f *Fleet) Schedules(ctx context.Context) ([]store.Scheduled, error) {
	parts := make([]store.Schedules, len(f.Stores))
	page := func(i int, s *store.Store) *store.Call[store.Schedules] {
		return s.SchedulesBehind(parts[i].Last, store.SchedulesPage)
	}
	err := everywhere(ctx, f, "asked", page, func(i int, page store.Schedules) (more bool) {
		parts[i].List, parts[i].Last = append(parts[i].List, page.List...), page.Last
		return page.Last != ""
	})
	return JoinSchedules(parts), err
}

// JoinSchedules merges the partitions' schedules by name. If two have the same one, the first counts.
func JoinSchedules(parts []store.Schedules) (all []store.Scheduled) {
	for _, part := range parts {
		all = append(all, part.List...)
	}
	slices.SortStableFunc(all, func(a, b store.Scheduled) int { return strings.Compare(a.Name, b.Name) })
	return slices.CompactFunc(all, func(a, b store.Scheduled) bool { return a.Name == b.Name })
}
