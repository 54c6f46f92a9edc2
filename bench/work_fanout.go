package main

import (
	"context"
	"fmt"
	"time"
)

func benchFanout(ctx context.Context, r *Run) Section {
	const most = 300
	load := func(workers int) traffic { return traffic{500, 50 * time.Millisecond, 250 * time.Millisecond, workers} }
	contenders := []contender{r.steady(ctx, "Delayer, 1 Client with 20 callers", load(20), (*Run).ours)}
	name := func(clients int) string { return fmt.Sprintf("Delayer, Clients: %d", clients) }
	for _, clients := range []int{1, 10, 50, 100, most} {
		contenders = append(contenders, r.steady(ctx, name(clients), load(clients), func(r *Run) Peer {
			p := newDelayer(r.Redis, 0)
			for range clients {
				p.consuming = append(p.consuming, r.openClient())
			}
			return p
		}))
	}
	rows := r.turns(r.slowRepeats, contenders)
	last := len(steadyColumns) - 1
	return Section{
		Title:  "Many Clients",
		Tables: []Table{{ID: "fanout", Title: "Many Clients wait for one topic, 500 jobs per second", Columns: steadyColumns, Rows: rows}},
		Targets: []Target{
			atMost(fmt.Sprintf("Commands per job with %d Clients against one", most), 1.3, "×", rows.ratio(last, name(most), name(1))),
			atMost(fmt.Sprintf("Redis's CPU time per job with %d Clients against one", most), 1.3, "×", rows.ratio(last-2, name(most), name(1))),
		},
	}
}
