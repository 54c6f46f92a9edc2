package main

import (
	"context"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/client"
)

// fanout is our client many times.
type fanout struct {
	*delayer
	clients []*client.Client
}

func newFanout(r *Redis, clients int) *fanout {
	f := &fanout{delayer: newDelayer(r, 0)}
	for range clients {
		f.clients = append(f.clients, must(client.OpenPool(client.PoolOptions{Addr: r.addr})))
	}
	return f
}

// Consume has one worker per client, whatever workers says.
func (f *fanout) Consume(ctx context.Context, _ int, got func(body string)) {
	go f.serve(ctx)
	for _, c := range f.clients {
		go consume(ctx, c, topic, 0, got)
	}
}

func (f *fanout) Close() {
	for _, c := range f.clients {
		c.Close()
	}
	f.delayer.Close()
}

func benchFanout(ctx context.Context, r *Run) Section {
	const most = 300
	load := traffic{perSecond: 500, shortest: 50 * time.Millisecond, longest: 250 * time.Millisecond, workers: 20}
	contenders := []contender{r.steady(ctx, "Delayer, 1 Client with 20 callers", load, r.ours)}
	name := func(clients int) string { return fmt.Sprintf("Delayer, Clients: %d", clients) }
	for _, clients := range []int{1, 10, 50, 100, most} {
		contenders = append(contenders, r.steady(ctx, name(clients), load, func() Peer { return newFanout(r.Redis, clients) }))
	}
	rows := r.turns(r.slowRepeats, contenders)
	against := func(column int) Sample {
		return rows.of(name(most)).column(column).Over(rows.of(name(1)).column(column))
	}
	last := len(steadyColumns) - 1
	return Section{
		Title:  "Many Clients",
		Tables: []Table{{ID: "fanout", Title: "Many Clients wait for one topic, 500 jobs per second", Columns: steadyColumns, Rows: rows}},
		Targets: []Target{
			atMost(fmt.Sprintf("Commands per job with %d Clients against one", most), 1.3, "×", against(last)),
			atMost(fmt.Sprintf("Redis's CPU time per job with %d Clients against one", most), 1.3, "×", against(last-2)),
		},
	}
}
