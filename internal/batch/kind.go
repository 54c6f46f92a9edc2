package batch

import (
	"context"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// maxItems bounds what one script call does, so that it does not keep Redis from others.
	maxItems = 250
	// maxBytes does so, too, but for a single item that is larger.
	maxBytes = 1 << 20
)

// Kind says what calls of a kind do with their items. Some go to Redis together, of about
// 1 MiB, and no ID twice, as the later of two comes after the earlier.
type Kind[T any] struct {
	Measure func(item T) (id string, bytes int) // empty IDs are never equal
	// Call makes the call that does items. Its answer is an error for each.
	Call func(s *store.Store, items []T) *store.Call[[]error]
	// Alike reports whether two items may go together; nil: all may.
	Alike func(a, b T) bool
	// Behind is done on the same connection behind a call, and may add to the items' errors; nil: nothing is.
	Behind func(ctx context.Context, p *store.Pipeline, items []T, errs []error)
}

// Chunks divides the items, in their order, into what goes to Redis together.
func (k Kind[T]) Chunks(items []T) (chunks [][]T) {
	ids := map[string]bool{}
	for len(items) > 0 {
		n := k.fit(items, ids)
		chunks, items = append(chunks, items[:n]), items[n:]
	}
	return chunks
}

// fit returns how many of the first items go to Redis together. ids is only room to work in.
func (k Kind[T]) fit(items []T, ids map[string]bool) int {
	if len(items) < 2 {
		return len(items)
	}
	clear(ids)
	sum := 0
	for n, item := range items {
		id, bytes := k.Measure(item)
		sum += bytes
		if n > 0 && (n == maxItems || sum > maxBytes || id != "" && ids[id] || k.Alike != nil && !k.Alike(items[0], item)) {
			return n
		}
		ids[id] = true
	}
	return len(items)
}
