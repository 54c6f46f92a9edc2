package main

import (
	"context"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/operator"
)

func runPartitions(ctx context.Context, c *call) (reply, error) {
	pool := client.NewPool(c.pool)
	defer pool.Close()
	partitions, err := operator.New(pool, c.redis.Prefix, c.redis.Partitions).Partitions(ctx)
	if err != nil {
		return reply{}, err
	}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	row := func(cells ...string) { w.Write([]byte(strings.Join(cells, "\t") + "\t\n")) }
	row("partition", "waiting", "ready", "reserved", "dead", "overdue")
	list := make([]map[string]any, len(partitions))
	for i, p := range partitions {
		row(strconv.Itoa(p.Number), number(p.Waiting), number(p.Ready), number(p.Reserved), number(p.Dead), overdue(p.Overdue))
		list[i] = map[string]any{
			"partition": p.Number, "waiting": known(p.Waiting), "ready": known(p.Ready), "reserved": known(p.Reserved),
			"dead": known(p.Dead), "overdue": known(p.Overdue.Seconds()),
		}
	}
	w.Flush()
	return reply{text: strings.TrimRight(table.String(), "\n"), json: map[string]any{"partitions": list}, safe: true}, nil
}

// number is a count in words: that of one that can't be read is a dash.
func number(n int) string {
	if n < 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

func overdue(d time.Duration) string {
	if d < 0 {
		return "-"
	}
	return d.Round(time.Millisecond).String()
}

// known is a number in JSON: null if it can't be read.
func known[N int | float64](n N) any {
	if n < 0 {
		return nil
	}
	return n
}
