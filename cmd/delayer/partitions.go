package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

func runPartitions(ctx context.Context, c *call) (reply, error) {
	partitions, err := c.jobs.Partitions(ctx)
	if err != nil {
		return reply{}, err
	}
	t := newTable(tabwriter.AlignRight, "partition", "node", "waiting", "ready", "reserved", "dead", "overdue", "mover")
	broken := ""
	list := make([]map[string]any, len(partitions))
	for i, p := range partitions {
		t.row(partitionName(p), cmp.Or(p.Node, "-"), number(p.Waiting), number(p.Ready), number(p.Reserved), number(p.Dead), overdue(p.Overdue), mover(p.Mover))
		list[i] = map[string]any{
			"partition": p.Number, "waiting": known(p.Waiting), "ready": known(p.Ready), "reserved": known(p.Reserved),
			"dead": known(p.Dead), "overdue": known(p.Overdue.Seconds()), "mover": nil,
		}
		if p.Node != "" {
			list[i]["node"] = p.Node
		}
		if p.Before {
			list[i]["before"] = true
		}
		if p.Err != nil {
			list[i]["error"] = p.Err.Error()
			broken += fmt.Sprintf("\npartition %d: %s", p.Number, printable(p.Err.Error(), ""))
		}
		if p.Mover.ID != "" {
			list[i]["mover"] = map[string]any{"host": p.Mover.Host, "pid": p.Mover.PID}
		}
	}
	all := map[string]any{"partitions": list}
	var strays []map[string]any
	for _, s := range c.jobs.Strays(ctx) {
		broken += "\n" + s.String()
		strays = append(strays, map[string]any{"partitions": s.Partitions, "jobs": s.Jobs, "at_least": s.AtLeast, "command": s.Command()})
	}
	if strays != nil {
		all["stray"] = strays
	}
	return reply{text: t.String() + broken, json: all, safe: true}, nil
}

func partitionName(p inspect.Partition) string {
	if p.Before {
		return fmt.Sprintf("%d (before)", p.Number)
	}
	return strconv.Itoa(p.Number)
}

// number is a count in words: that of one that can't be read is a dash.
func number(n int) string {
	if n < 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// mover is a server in words, on one line whatever it calls itself.
func mover(s store.ServerState) string {
	if s.ID == "" {
		return "-"
	}
	return printable(s.Host, "") + ":" + strconv.Itoa(s.PID)
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
