package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
)

const worked = ", worker" // suffix of contenders that use a worker

// unreached are limits that the load never reaches.
var unreached = []struct {
	name string
	client.Limit
}{
	{"no limit", client.Limit{}},
	{"1,000 at a time", client.Limit{Concurrency: 1000}},
	{"1,000,000 a second", client.Limit{Rate: 1_000_000, Burst: 1_000_000}},
	{"both", client.Limit{Concurrency: 1000, Rate: 1_000_000, Burst: 1_000_000}},
}

// limits returns the tables and targets for limits.
func (r *Run) limits(ctx context.Context) (tables []Table, targets []Target) {
	var contenders []contender
	for _, l := range unreached {
		contenders = append(contenders, r.feature(ctx, "Delayer, "+l.name, r.limited(ctx, l.Limit), reserveAndAck(ctx)))
	}
	for _, l := range unreached {
		contenders = append(contenders, r.worksUnder(ctx, "Delayer, "+l.name+worked, l.Limit))
	}
	taken := r.turns(r.pairRepeats, contenders)
	name := fmt.Sprintf("Delayer, next to %s jobs of a limited topic", count(r.batchJobs))
	late := r.turns(r.pairRepeats, []contender{
		r.steady(ctx, "Delayer", r.traffic(500), (*Run).ours),
		r.alone(ctx, name, (*Run).ours, r.besideLimit),
	})
	for _, l := range unreached[1:] {
		for _, by := range []string{"", worked} {
			targets = append(targets, atLeast("Jobs/s under a limit never reached, "+l.name+by, 0.95,
				taken.ratio(0, "Delayer, "+l.name+by, "Delayer, "+unreached[0].name+by)))
		}
	}
	for i, p := range []string{"p50", "p99"} {
		targets = append(targets, atMost("Lateness "+p+" at 500/s, next to a limited backlog", 1.1, "×", late.ratio(i, name, "Delayer")))
	}
	return []Table{
		{ID: "features-limit", Title: "Reserve and acknowledge under limits that are not reached", Columns: featureColumns, Rows: taken},
		{ID: "features-limited", Title: "Lateness at 500 jobs per second, next to a limited backlog", Columns: steadyColumns[:6], Rows: late},
	}, append(targets, neverEarly("next to a limited backlog", late.of(name)))
}

// limited is backlog with a limit of the topic.
func (r *Run) limited(ctx context.Context, l client.Limit) func(c *client.Client) {
	return func(c *client.Client) {
		r.backlog(ctx)(c)
		check(c.SetLimit(ctx, topic, l))
	}
}

// worksUnder lets a worker handle a backlog.
func (r *Run) worksUnder(ctx context.Context, name string, l client.Limit) contender {
	return r.featureOnce(ctx, name, r.limited(ctx, l), func(c *client.Client) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		var handled atomic.Int64
		mux := worker.NewMux()
		mux.HandleFunc(topic, func(context.Context, *worker.Job) error {
			if handled.Add(1) == int64(r.cpuJobs) {
				cancel()
			}
			return nil
		})
		check(newWorker(c, mux, consumers).Run(ctx))
	})
}

const limitedTopic = "limited"

// besideLimit measures the lateness under a steady load, next to another topic whose limit keeps a backlog.
func (r *Run) besideLimit(ctx context.Context, p Peer) []float64 {
	c := r.openClient() // of another program
	defer c.Close()
	inChunks(r.batchJobs, func(from, n int) {
		pushAll(ctx, c, n, func(i int) client.Delayed {
			return client.Delayed{Message: client.Message{ID: fmt.Sprint(limitedTopic, from+i), Topic: limitedTopic, Body: body(int64(i))}}
		})
	})
	check(c.SetLimit(ctx, limitedTopic, client.Limit{Concurrency: 4}))
	for range 8 {
		go func() {
			for ctx.Err() == nil {
				if d, err := c.Reserve(ctx, 0, time.Minute, limitedTopic); err == nil {
					time.Sleep(100 * time.Millisecond)
					d.Ack(ctx)
				}
			}
		}()
	}
	return r.steadyOnce(ctx, p, r.traffic(500))
}
