package inspect

import (
	"context"
	"errors"
	"fmt"

	"github.com/mix-basic/delayer/internal/store"
)

// purgeStep is the most entries of a queue that one script drops.
const purgeStep = 1000

// Purge deletes the jobs of the topic that were ready when it began, the next to be delivered
// first, up to most entries of the queue, a few at a time. It returns how many jobs there were,
// also with an error. Waiting and reserved jobs stay. Counts says beforehand how many there are.
func (o *Inspector) Purge(ctx context.Context, topic string, most int) (int, error) {
	if topic == "" {
		return 0, errors.New("purge: topic is empty")
	}
	deleted := 0
	for _, partition := range o.fleet.Stores {
		length, err := partition.ReadyCount(ctx, topic)
		if err != nil {
			return deleted, fmt.Errorf("purge of %s: %w", store.Quote(topic), err)
		}
		for left := min(length, most); left > 0; {
			n, used, err := partition.Purge(ctx, topic, min(left, purgeStep))
			deleted += n
			if err != nil {
				return deleted, fmt.Errorf("purge of %s: %w", store.Quote(topic), err)
			}
			if used == 0 {
				break
			}
			left, most = left-used, most-used
		}
	}
	return deleted, nil
}
