package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
		contenders = append(contenders, r.takesUnder(ctx, "Delayer, "+l.name, l.Limit))
	}
	for _, l := range unreached {
		contenders = append(contenders, r.worksUnder(ctx, "Delayer, "+l.name+worked, l.Limit))
	}
	taken := r.turns(r.pairRepeats, contenders)
	beside := r.withLimit(ctx)
	late := r.turns(r.pairRepeats, beside)
	tables = []Table{
		{ID: "features-limit", Title: "Reserve and acknowledge under limits that are not reached", Columns: featureColumns, Rows: rows(contenders, taken)},
		{ID: "features-limited", Title: "Lateness at 500 jobs per second, next to a limited backlog", Columns: steadyColumns[:6], Rows: rows(beside, late)},
	}
	for _, l := range unreached[1:] {
		for _, by := range []string{"", worked} {
			of := taken["Delayer, "+l.name+by].column(0).Over(taken["Delayer, "+unreached[0].name+by].column(0))
			targets = append(targets, Target{Name: "Jobs/s under a limit never reached, " + l.name + by, Limit: 0.95, Unit: "×", Got: of})
		}
	}
	for i, name := range []string{"p50", "p99"} {
		of := late[beside[1].name].column(i).Over(late[beside[0].name].column(i))
		targets = append(targets, Target{Name: "Lateness " + name + " at 500/s, next to a limited backlog", AtMost: true, Limit: 1.1, Unit: "×", Got: of})
	}
	return tables, append(targets, neverEarly("next to a limited backlog", late[beside[1].name]))
}

// limited is a preparation that also sets the topic's limit.
func limited(ctx context.Context, l client.Limit, prepare func(c *client.Client) error) func(c *client.Client) error {
	return func(c *client.Client) error { return errors.Join(prepare(c), c.SetLimit(ctx, topic, l)) }
}

// takesUnder reserves and acknowledges a backlog, one job per call.
func (r *Run) takesUnder(ctx context.Context, name string, l client.Limit) contender {
	return r.feature(ctx, name, limited(ctx, l, r.backlog(ctx)), reserveAndAck(ctx))
}

// worksUnder lets a worker handle a backlog.
func (r *Run) worksUnder(ctx context.Context, name string, l client.Limit) contender {
	var handled chan struct{}
	var left atomic.Int64
	begin := func(c *client.Client) error {
		handled = make(chan struct{})
		left.Store(int64(r.cpuJobs))
		return limited(ctx, l, r.backlog(ctx))(c)
	}
	mux := worker.NewMux()
	mux.HandleFunc(topic, func(context.Context, *worker.Job) error {
		if left.Add(-1) == 0 {
			close(handled)
		}
		return nil
	})
	work := func(c *client.Client) error {
		ctx, cancel := context.WithCancel(ctx)
		go func() {
			<-handled
			cancel()
		}()
		return worker.New(c, mux, worker.Options{Concurrency: 8, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}).Run(ctx)
	}
	return r.featureOnce(ctx, name, begin, work)
}

const limitedTopic = "limited"

// withLimit measures the lateness under a steady load, with and without another topic whose limit keeps a
// backlog.
func (r *Run) withLimit(ctx context.Context) []contender {
	load := r.traffic(500)
	backlogged := func(ctx context.Context, c *client.Client) error {
		jobs := make([]client.Delayed, pushChunk)
		for from := 0; from < r.batchJobs; from += len(jobs) {
			for i := range jobs {
				jobs[i].Message = client.Message{ID: fmt.Sprint(limitedTopic, from+i), Topic: limitedTopic, Body: body(int64(i))}
			}
			if _, err := c.PushBatch(ctx, jobs); err != nil {
				return err
			}
		}
		if err := c.SetLimit(ctx, limitedTopic, client.Limit{Concurrency: 4}); err != nil {
			return err
		}
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
		return nil
	}
	beside := fmt.Sprintf("Delayer, next to %s jobs of a limited topic", count(r.batchJobs))
	return []contender{
		r.steady(ctx, "Delayer", load, oursAnew(r)),
		{name: beside, run: func() ([]float64, error) {
			return r.onEmpty(ctx, oursAnew(r), func(ctx context.Context, p Peer) ([]float64, error) {
				other := client.OpenPool(client.PoolOptions{Addr: r.Redis.addr}) // of another program
				defer other.Close()
				if err := backlogged(ctx, other); err != nil {
					return nil, err
				}
				return r.steadyOnce(ctx, p, load)
			})
		}},
	}
}
