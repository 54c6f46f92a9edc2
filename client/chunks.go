package client

import (
	"context"
	"slices"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
)

// chunk is some items of a call for many that go to Redis together, and their places among all of these.
type chunk[T any] struct {
	store  *store.Store
	items  []T
	first  int
	places []int // nil if they stand together, from first on
}

func (c *chunk[T]) place(k int) int {
	if c.places == nil {
		return c.first + k
	}
	return c.places[k]
}

// cut takes the first n items out of the chunk, and returns them as one of their own.
func (c *chunk[T]) cut(n int) chunk[T] {
	part := *c
	part.items, c.items, c.first = c.items[:n], c.items[n:], c.first+n
	if c.places != nil {
		part.places, c.places = c.places[:n], c.places[n:]
	}
	return part
}

// chunksOf divides the items among the partitions, and those of each partition, in their order, into chunks. All
// partitions' first chunks come first, so that all nodes have something to do.
func chunksOf[T any](c *Client, kind batch.Kind[T], items []T, where func(place int) int) []chunk[T] {
	var rows [][]chunk[T]
	for _, all := range divide(c, items, where) {
		for row, some := range kind.Chunks(all.items) {
			if row == len(rows) {
				rows = append(rows, nil)
			}
			rows[row] = append(rows[row], all.cut(len(some)))
		}
	}
	return slices.Concat(rows...)
}

// divide divides the items among the partitions; where tells which one each goes to. Each has one chunk, however large.
func divide[T any](c *Client, items []T, where func(place int) int) []chunk[T] {
	if len(c.partitions) == 1 {
		return []chunk[T]{{store: c.partitions[0], items: items}}
	}
	chunks := make([]chunk[T], len(c.partitions))
	for i, p := range c.partitions {
		chunks[i].store = p
	}
	for place, item := range items {
		of := &chunks[where(place)]
		of.items, of.places = append(of.items, item), append(of.places, place)
	}
	return chunks
}

// settledAtATime is how many chunks are under way to a node where they are of several partitions, and so small. Of
// one partition there is one at a time: what has failed is known exactly then.
const settledAtATime = 4

// doAll has many items done, a chunk at a time, and returns an error for each. An error of Redis is that of one
// chunk; any other is that of all that follow on the same connection.
func doAll[T any](ctx context.Context, c *Client, kind batch.Kind[T], items []T, where func(place int) int) []error {
	errs, chunks := make([]error, len(items)), chunksOf(c, kind, items, where)
	call := func(i int) *store.Call[[]error] { return kind.Call(chunks[i].store, chunks[i].items) }
	store.InTurn(ctx, storesOf(chunks), min(len(c.partitions), settledAtATime), call, func(i int, each []error, err error) bool {
		for k := range chunks[i].items {
			place := chunks[i].place(k)
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
