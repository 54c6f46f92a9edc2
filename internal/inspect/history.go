package inspect

import (
	"context"
	"fmt"

	"github.com/mix-basic/delayer/internal/store"
)

// History is what the servers have done in the last hour, ten seconds at a time, the oldest first.
func (o *Inspector) History(ctx context.Context) ([]store.Past, error) {
	past, err := o.fleet.Stores[0].History(ctx) // where that of all partitions is
	if err != nil {
		return nil, fmt.Errorf("history: %w", err)
	}
	return past, nil
}
