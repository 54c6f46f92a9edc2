package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/client"
)

func benchWaiting(ctx context.Context, r *Run) (Section, error) {
	const callers = 1000
	var contenders []contender
	for _, topics := range []int{200, 1000} {
		contenders = append(contenders, contender{
			name: fmt.Sprintf("Delayer, %s callers on %s topics", count(callers), count(topics)),
			run: func() ([]float64, error) {
				return r.onEmpty(ctx, oursAnew(r), func(ctx context.Context, p Peer) ([]float64, error) {
					return r.waitingOnce(ctx, p.(*delayer), callers, topics)
				})
			},
		})
	}
	results := r.turns(r.slowRepeats, contenders)
	return Section{
		Title: "Many callers",
		Tables: []Table{{
			ID: "waiting", Title: "Cost of many waiting callers",
			Columns: append(usageColumns[:len(usageColumns):len(usageColumns)], Column{Name: "sent per second", Digits: 1}, Column{Name: "connections"}),
			Rows:    rows(contenders, results),
		}},
		Targets: []Target{{
			Name:   "Commands per second that 1,000 waiting callers on 200 topics send",
			AtMost: true, Limit: 3, Got: results[contenders[0].name].column(3),
		}},
	}, nil
}

// waitInVain starts that many waiting callers and counts those that stop waiting.
func waitInVain(ctx context.Context, c *client.Client, callers, topics int) *atomic.Int64 {
	var gone atomic.Int64
	for i := range callers {
		go func() {
			c.BPop(ctx, time.Hour, fmt.Sprint(topic, i%topics))
			gone.Add(1)
		}()
	}
	return &gone
}

// waitingOnce returns the usage, the commands sent per second and the connections of callers that wait
// without jobs.
func (r *Run) waitingOnce(ctx context.Context, p *delayer, callers, topics int) ([]float64, error) {
	gone := waitInVain(ctx, p.client, callers, topics)
	time.Sleep(r.settle) // until all wait
	used, err := r.usage(p, func() error {
		time.Sleep(r.idleFor)
		return nil
	})
	if err != nil {
		return nil, err
	}
	connections, err := r.Redis.info("connected_clients")
	if err != nil {
		return nil, err
	}
	sent, err := r.Redis.sent(func() { time.Sleep(r.idleFor) })
	if n := gone.Load(); n > 0 {
		return nil, fmt.Errorf("%d callers wait no more", n)
	}
	return append(used, float64(sent)/r.idleFor.Seconds(), connections-float64(r.Redis.Pool.ActiveCount())), err
}

// fanout is our client many times.
type fanout struct {
	*delayer
	clients []*client.Client
}

func newFanout(r *Redis, clients int) *fanout {
	f := &fanout{delayer: newDelayer(r, 0)}
	for range clients {
		f.clients = append(f.clients, client.OpenPool(client.PoolOptions{Addr: r.addr}))
	}
	return f
}

// Consume has one worker per client, whatever workers says.
func (f *fanout) Consume(ctx context.Context, _ int, got func(body string)) error {
	go f.serve(ctx)
	for _, c := range f.clients {
		go consume(ctx, c, topic, 0, got)
	}
	return nil
}

func (f *fanout) Close() error {
	for _, c := range f.clients {
		c.Close()
	}
	return f.delayer.Close()
}

func benchFanout(ctx context.Context, r *Run) (Section, error) {
	const most = 300
	load := traffic{perSecond: 500, shortest: 50 * time.Millisecond, longest: 250 * time.Millisecond, workers: 20}
	contenders := []contender{r.steady(ctx, "Delayer, 1 Client with 20 callers", load, oursAnew(r))}
	name := func(clients int) string { return fmt.Sprintf("Delayer, Clients: %d", clients) }
	for _, clients := range []int{1, 10, 50, 100, most} {
		contenders = append(contenders, r.steady(ctx, name(clients), load, func() (Peer, error) { return newFanout(r.Redis, clients), nil }))
	}
	results := r.turns(r.slowRepeats, contenders)
	one, many := results[name(1)], results[name(most)]
	last := len(steadyColumns) - 1
	return Section{
		Title: "Many Clients",
		Tables: []Table{{
			ID: "fanout", Title: "Many Clients wait for one topic, 500 jobs per second", Columns: steadyColumns, Rows: rows(contenders, results),
		}},
		Targets: []Target{
			{Name: fmt.Sprintf("Commands per job with %d Clients against one", most), AtMost: true, Limit: 1.3, Unit: "×", Got: many.column(last).Over(one.column(last))},
			{Name: fmt.Sprintf("Redis's CPU time per job with %d Clients against one", most), AtMost: true, Limit: 1.3, Unit: "×", Got: many.column(last - 2).Over(one.column(last - 2))},
		},
	}, nil
}
