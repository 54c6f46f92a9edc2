package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/mix-basic/delayer/internal/view"
)

func runPartitions(ctx context.Context, c *call) (reply, error) {
	partitions, err := c.jobs.Partitions(ctx)
	if err != nil {
		return reply{}, err
	}
	list := view.Partitions(partitions)
	columns := []string{"partition", "waiting", "ready", "reserved", "dead", "overdue", "mover"}
	if len(c.redis.Cluster) > 0 {
		columns = slices.Insert(columns, 1, "node")
	}
	r := rowsOf("partitions", list, columns...)
	for i, p := range partitions {
		if p.Err != nil {
			list[i].Put("error", p.Err.Error())
			r.rows.notes = append(r.rows.notes, fmt.Sprintf("partition %d: %s", p.Number, printable(p.Err.Error(), "")))
		}
	}
	return r, nil
}
