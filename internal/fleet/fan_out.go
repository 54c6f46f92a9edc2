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
func Divide[T any](items []T, where func(i int) *store.Store) (chunks []Chunk[T]) {
	places := map[*store.Store][]int{}
	for i := range items {
		s := where(i)
		if places[s] == nil {
			chunks = append(chunks, Chunk[T]{Store: s, Items: items})
		}
		places[s] = append(places[s], i)
	}
	for k := range chunks {
		c := &chunks[k]
		if c.Places = places[c.Store]; len(chunks) > 1 {
			c.Items = make([]T, len(c.Places))
			for i, place := range c.Places {
				c.Items[i] = items[place]
			}
		}
	}
	return chunks
}

// storesOf returns the chunks' partitions.
func storesOf[T any](chunks []Chunk[T]) (stores []*store.Store) {
	for _, c := range chunks {
		stores = append(stores, c.Store)
	}
	return stores
}

// DoAll does many items in the partitions that where returns, chunk by chunk, and returns an error for each. An error from Redis
// concerns one chunk; for any other see Each.
func DoAll[T any](ctx context.Context, kind batch.Kind[T], items []T, where func(i int) *store.Store) []error {
	var chunks []Chunk[T]
	for _, all := range Divide(items, where) {
		for _, some := range kind.Chunks(all.Items) {
			chunks = append(chunks, Chunk[T]{all.Store, some, all.Places[:len(some)]})
			all.Places = all.Places[len(some):]
		}
	}
	errs, answers := make([]error, len(items)), make([][]error, len(chunks))
	for i, err := range Each(storesOf(chunks), func(i int) (err error) {
		answers[i], err = kind.Call(chunks[i].Store, chunks[i].Items).Do(ctx)
		return err
	}) {
		for k, place := range chunks[i].Places {
			if errs[place] = err; err == nil {
				errs[place] = answers[i][k]
			}
		}
	}
	return errs
}

// everywhere makes a call in each partition. They do not stop each other. done describes the operation in the error, which says in how many partitions it
// is done.
func (f *Fleet) everywhere(done string, call func(i int, s *store.Store) error) error {
	failed := f.Each(call)
	errs, n := slices.DeleteFunc(failed, func(err error) bool { return err == nil }), len(failed)
	switch {
	case len(errs) == 0:
		return nil
	case n == 1:
		return errs[0]
	}
	return fmt.Errorf("%s in %d of %d partitions; to do it again does the rest: %w", done, n-len(errs), n, errors.Join(errs[:min(len(errs), 3)]...))
}

// Pause pauses the topic in all partitions, see Store.Pause. An error names the partitions in which it is not paused; in the others it is. Pausing
// again completes it.
func (f *Fleet) Pause(ctx context.Context, topic string, d time.Duration, note string) error {
	return f.everywhere("paused", func(_ int, s *store.Store) error { return errOf(s.Pause(topic, d, note).Do(ctx)) })
}

// PauseAnew is Pause, but returns false and changes nothing if an operator has paused the topic with another end or note. The first partition decides,
// so that one of two operators wins in all.
func (f *Fleet) PauseAnew(ctx context.Context, topic string, d time.Duration, note string) (paused bool, err error) {
	if paused, err = f.Stores[0].PauseAnew(topic, d, note).Do(ctx); err != nil {
		return false, f.Named(0, err)
	}
	if !paused || len(f.Stores) == 1 {
		return paused, nil
	}
	return true, f.Pause(ctx, topic, d, note)
}

// Throttle throttles the topic in all partitions, see Store.Throttle.
func (f *Fleet) Throttle(ctx context.Context, topic string, d time.Duration) error {
	return f.everywhere("throttled", func(_ int, s *store.Store) error { return errOf(s.Throttle(topic, d).Do(ctx)) })
}

// Resume resumes the topic in all partitions and reports whether it was paused in any.
func (f *Fleet) Resume(ctx context.Context, topic string) (wasPaused bool, err error) {
	were := make([]bool, len(f.Stores))
	err = f.everywhere("resumed", func(i int, s *store.Store) error {
		for {
			step, err := s.Resume(topic).Do(ctx)
			if were[i] = were[i] || step.WasPaused; !step.More {
				return err
			}
		}
	})
	return slices.Contains(were, true), err
}

// Paused returns the topics that are paused in any partition, sorted by name.
func (f *Fleet) Paused(ctx context.Context) ([]store.Pause, error) {
	parts := make([][]store.Pause, len(f.Stores))
	err := f.everywhere("asked", func(i int, s *store.Store) (err error) {
		parts[i], err = s.Paused(ctx)
		return err
	})
	return store.JoinPauses(slices.Concat(parts...)), err
}

// Schedules returns the schedules of all partitions, sorted by name. With an error they are
// those of the readable partitions.
func (f *Fleet) Schedules(ctx context.Context) ([]store.Scheduled, error) {
	parts := make([]store.Schedules, len(f.Stores))
	err := f.everywhere("asked", func(i int, s *store.Store) (err error) {
		parts[i], err = s.Schedules(ctx)
		return err
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

// errOf is the error of a call without a result.
func errOf(_ struct{}, err error) error { return err }
