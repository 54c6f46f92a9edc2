package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/client"
)

func benchWaiting(ctx context.Context, r *Run) Section {
	const callers = 1000
	var contenders []contender
	for _, topics := range []int{200, 1000} {
		contenders = append(contenders, contender{
			name: fmt.Sprintf("Delayer, %s callers on %s topics", count(callers), count(topics)),
			run: func() []float64 {
				return r.onEmpty(ctx, r.ours, func(ctx context.Context, p Peer) []float64 { return r.waitingOnce(ctx, p.(*delayer), callers, topics) })
			},
		})
	}
	rows := r.turns(r.slowRepeats, contenders)
	return Section{
		Title: "Many callers",
		Tables: []Table{{
			ID: "waiting", Title: "Cost of many waiting callers",
			Columns: append(usageColumns[:len(usageColumns):len(usageColumns)], Column{Name: "sent per second", Digits: 1}, Column{Name: "connections"}),
			Rows:    rows,
		}},
		Targets: []Target{atMost("Commands per second that 1,000 waiting callers on 200 topics send", 3, "", rows.of(contenders[0].name).column(3))},
	}
}

// quitters counts callers that have stopped waiting.
type quitters struct{ atomic.Int64 }

func (q *quitters) check() {
	if n := q.Load(); n > 0 {
		check(fmt.Errorf("%d callers wait no more", n))
	}
}

// waitInVain starts that many waiting callers.
func waitInVain(ctx context.Context, c *client.Client, callers, topics int) *quitters {
	gone := &quitters{}
	for i := range callers {
		go func() {
			c.BPop(ctx, time.Hour, fmt.Sprint(topic, i%topics))
			gone.Add(1)
		}()
	}
	return gone
}

// waitingOnce returns the usage, the commands sent per second and the connections of callers that wait
// without jobs.
func (r *Run) waitingOnce(ctx context.Context, p *delayer, callers, topics int) []float64 {
	gone := waitInVain(ctx, p.client, callers, topics)
	time.Sleep(r.settle) // until all wait
	used := r.usage(p, func() { time.Sleep(r.idleFor) })
	connections := r.Redis.connections()
	sent := r.Redis.sent(func() { time.Sleep(r.idleFor) })
	gone.check()
	return append(used, float64(sent)/r.idleFor.Seconds(), connections)
}

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
