package api

import "github.com/mix-basic/delayer/internal/view"

// partitions answers with the counts of each partition.
func (a *api) partitions(c *call) (response, error) {
	partitions, err := a.inspector.Partitions(c.context())
	return ok(view.Of("partitions", view.Partitions(partitions))), err
}
