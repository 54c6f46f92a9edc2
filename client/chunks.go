package client

import (
	"context"
	"slices"

	"github.com/mix-basic/delayer/internal/coalesce"
	"github.com/mix-basic/delayer/internal/store"
)

// chunk is some items of a call for many that go to Redis together, and their places among all of these.
type chunk[T any] struct {
	store  *store.Store
	items  []T
	places []int
}

// chunksOf divides the items among the partitions, and those of each partition, in their order, into chunks. All
// partitions' first chunks come first, so that all nodes have something to do.
func chunksOf[T any](c *Client, kind coalesce.Kind[T], items []T) []chunk[T] {
	var rows [][]chunk[T]
	for _, all := range divide(c, kind, items) {
		for row, some := range kind.Chunks(all.items) {
			if row == len(rows) {
				rows = append(rows, nil)
			}
			rows[row] = append(rows[row], chunk[T]{all.store, some, all.places[:len(some)]})
			all.places = all.places[len(some):]
		}
	}
	return slices.Concat(rows...)
}

// divide divides the items among the partitions. Each has one chunk, however large.
func divide[T any](c *Client, kind coalesce.Kind[T], items []T) []chunk[T] {
	chunks := make([]chunk[T], len(c.partitions))
	for i, p := range c.partitions {
		chunks[i].store = p
	}
	if len(chunks) == 1 {
		chunks[0].items = items
	}
	for place, item := range items {
		id, _ := kind.Measure(item)
		of := &chunks[store.PartitionOf(id, len(chunks))]
		of.places = append(of.places, place)
		if len(chunks) > 1 {
			of.items = append(of.items, item)
		}
	}
	return chunks
}

// settledAtATime is how many chunks are under way to a node where they are of several partitions, and so small. Of
// one partition there is one at a time: what has failed is known exactly then.
const settledAtATime = 4

// doAll has many items done, a chunk at a time, and returns an error for each. An error of Redis is that of one
// chunk; any other is that of all that follow on the same connection.
func doAll[T any](ctx context.Context, c *Client, kind coalesce.Kind[T], items []T) []error {
	errs, chunks := make([]error, len(items)), chunksOf(c, kind, items)
	call := func(i int) *store.Call[[]error] { return kind.Call(chunks[i].store, chunks[i].items) }
	store.InTurn(ctx, storesOf(chunks), min(len(c.partitions), settledAtATime), call, func(i int, each []error, err error) bool {
		for k, place := range chunks[i].places {
			if errs[place] = err; err == nil {
				errs[place] = each[k]
			}
		}
		return true
	})
	return errs
}

func storesOf[T any](chunks []chunk[T]) []*store.Store {
	return each(chunks, func(c chunk[T]) *store.Store { return c.store })
}

func each[T, U any](items []T, f func(T) U) []U {
	list := make([]U, len(items))
	for i, item := range items {
		list[i] = f(item)
	}
	return list
}
