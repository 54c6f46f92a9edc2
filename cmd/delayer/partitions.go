package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

// partitionCommands are about partitions.
func partitionCommands() []command {
	return []command{
		{name: "partitions", run: runPartitions,
			help: "count the jobs of each partition, and tell by how much its next one is overdue and which server moves it"},
		{name: "migrate", run: runMigrate,
			help: "move what is left in the partitions of before (partitions_before) to those of now, while all goes on",
			flags: func(f *flag.FlagSet, o *options) {
				boolean(f, &o.noWait, "no-wait")
			},
			options: "--no-wait -- end when only jobs that are reserved are left, instead of waiting for them\n",
			note:    "It can be stopped at any time, and begun again.\n"},
	}
}

func runPartitions(ctx context.Context, c *call) (reply, error) {
	pool := client.NewPool(c.pool)
	defer pool.Close()
	op := inspect.New(pool, c.redis.Prefix, layoutOf(c.redis))
	partitions, err := op.Partitions(ctx)
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
	for _, s := range op.Strays(ctx) {
		broken += "\n" + s.String()
		strays = append(strays, map[string]any{"partitions": s.Partitions, "jobs": s.Jobs, "at_least": s.AtLeast, "command": s.Command()})
	}
	if strays != nil {
		all["stray"] = strays
	}
	return reply{text: t.String() + broken, json: all, safe: true}, nil
}

func layoutOf(r config.Redis) store.Layout {
	return store.Layout{Partitions: r.Partitions, Before: r.PartitionsBefore}
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
