package fleet

import (
	"context"
	"slices"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
)

// Chunk is some of a call's items that go to one partition together.
type Chunk[T any] struct {
	Store  *store.Store
	Items  []T
	Places []int // theirs among all items
}

// Divide divides the items among the partitions: where returns that of an item. Each partition has one chunk, however large.
func Divide[T any](items []T, where func(i int) *store.Store) []Chunk[T] {
	var chunks []Chunk[T]
	of := map[*store.Store]int{} // the partitions' places among the chunks
	for i, item := range items {
		s := where(i)
		k, known := of[s]
		if !known {
			k = len(chunks)
			of[s], chunks = k, append(chunks, Chunk[T]{Store: s})
		}
		c := &chunks[k]
		c.Items, c.Places = append(c.Items, item), append(c.Places, i)
	}
	return chunks
}

// Chunks divides the items among the partitions, and those of each partition, in their order, into what goes to Redis in one call. All
// partitions' first chunks come first, so that every node has something to do.
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

// StoresOf are the chunks' partitions.
func StoresOf[T any](chunks []Chunk[T]) []*store.Store {
	stores := make([]*store.Store, len(chunks))
	for i, c := range chunks {
		stores[i] = c.Store
	}
	return stores
}

// chunksAtOnce is how many chunks are under way to a node where they are of several partitions, and so small. Of
// one partition there is one at a time: what has failed is known exactly then.
const chunksAtOnce = 4

// DoAll does many items at the partitions that where returns for them, a chunk at a time, and returns an error for each. An error of Redis
// is that of one chunk; any other is that of all that follow on the same connection.
func DoAll[T any](ctx context.Context, kind batch.Kind[T], items []T, where func(i int) *store.Store) []error {
	errs, chunks := make([]error, len(items)), Chunks(kind, items, where)
	stores := StoresOf(chunks)
	atOnce := chunksAtOnce
	if !slices.ContainsFunc(stores, func(s *store.Store) bool { return s != stores[0] }) {
		atOnce = 1
	}
	call := func(i int) *store.Call[[]error] { return kind.Call(stores[i], chunks[i].Items) }
	store.InTurn(ctx, stores, atOnce, call, func(i int, each []error, err error) bool {
		for k, place := range chunks[i].Places {
			if errs[place] = err; err == nil {
				errs[place] = each[k]
			}
		}
		return true
	})
	return errs
}
