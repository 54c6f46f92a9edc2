package coalesce

// MaxItems and MaxBytes bound what one script call stores, so that it does not keep Redis from
// others.
const (
	MaxItems = 250
	MaxBytes = 1 << 20
)

// Bounds say what may go to Redis in one call: so many items, about 1 MiB or one item, and no ID
// twice, as the later of two comes after the earlier.
type Bounds[T any] struct {
	Items   int
	Measure func(item T) (id string, bytes int)
}

// Chunks divides the items into what goes to Redis in one call each, in their order.
func (b Bounds[T]) Chunks(items []T) [][]T {
	var chunks [][]T
	next, first := b.chunk(), 0
	for i, item := range items {
		if !next.add(item) {
			chunks = append(chunks, items[first:i])
			first = i
			next.clear()
			next.add(item)
		}
	}
	if first < len(items) {
		chunks = append(chunks, items[first:])
	}
	return chunks
}

// chunk is what goes to Redis in the next call.
type chunk[T any] struct {
	Bounds[T]
	ids   map[string]bool
	bytes int
}

func (b Bounds[T]) chunk() *chunk[T] { return &chunk[T]{Bounds: b, ids: map[string]bool{}} }

func (c *chunk[T]) clear() {
	clear(c.ids)
	c.bytes = 0
}

// add reports whether the item fits, and adds it then. The first always does.
func (c *chunk[T]) add(item T) bool {
	id, bytes := c.Measure(item)
	if n := len(c.ids); n == c.Items || n > 0 && (c.bytes+bytes > MaxBytes || c.ids[id]) {
		return false
	}
	c.ids[id] = true
	c.bytes += bytes
	return true
}
