package fleet

import (
	"context"
	"slices"

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

// Chunks divides the items among the partitions, and each partition's items, in order, into single calls to Redis. All
// partitions' first chunks come first, so that every node has work.
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

// StoresOf returns the chunks' partitions.
func StoresOf[T any](chunks []Chunk[T]) []*store.Store {
	stores := make([]*store.Store, len(chunks))
	for i, c := range chunks {
		stores[i] = c.Store
	}
	return stores
}

// chunksAtOnce is how many chunks are in flight to a node if they belong to several partitions, and are therefore small. Chunks
// of one partition go one at a time, so that it is known exactly what has failed.
const chunksAtOnce = 4

// DoAll does many items in the partitions that where returns, chunk by chunk, and returns an error for each. An error from Redis
// concerns one chunk; any other concerns all later ones on the same connection.
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
