package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/mix-basic/delayer/client"
	"golang.org/x/sync/errgroup"
)

// way is how jobs are pushed and taken: by that many goroutines, one job per call.
type way int

// batches is one goroutine with pushChunk jobs per call.
const batches way = 0

var ways = []way{1, 32, batches}

func (w way) String() string {
	if w == batches {
		return "1,000 jobs per call"
	}
	return plural(int(w), "goroutine")
}

// lifeStages are the measured stages of a job's life.
var lifeStages = []string{"push", "move", "take", "reserve", "ack"}

func benchPartitions(ctx context.Context, r *Run) Section {
	var clusters [3]place
	var started errgroup.Group
	defer func() {
		for _, c := range clusters {
			c.stop()
		}
	}()
	for i := range clusters {
		started.Go(func() error { return attempt(func() { clusters[i] = startCluster(i+1, 16) }) })
	}
	one, many := r.onOne(1), r.onOne(16)
	divided := r.lives(ctx, []place{one, r.onOne(4), many})
	check(started.Wait()) // takes a node two seconds, mostly idle
	nodes := clusters[2]
	spread := r.lives(ctx, clusters[:])
	late := r.turns(r.pairRepeats, []contender{r.steadyIn(ctx, one), r.steadyIn(ctx, many)})
	idle := r.turns(min(2, r.slowRepeats), []contender{r.waitingIn(ctx, one), r.waitingIn(ctx, many), r.waitingIn(ctx, nodes)})

	section := Section{
		Title: "Partitions",
		Tables: slices.Concat(
			lifeTables(divided, "partitions", "of one Redis"),
			lifeTables(spread, "partitions-nodes", "of a Redis Cluster with 16 partitions"),
			[]Table{
				{ID: "partitions-late", Title: "Lateness at 500 jobs per second with partitions", Columns: steadyColumns, Rows: late},
				{
					ID: "partitions-waiting", Title: "1,000 callers wait on 200 topics with partitions",
					Columns: []Column{{Name: "sent per second", Digits: 1}, {Name: "connections"}}, Rows: idle,
				},
			}),
	}
	for _, w := range ways {
		section.Targets = append(section.Targets, atMost("Redis's CPU time per job with 16 partitions against one, "+w.String(), 1.3, "×",
			divided.ratio(sumColumn, lifeName(many, w), lifeName(one, w))))
	}
	for i, name := range []string{"p50", "p99"} {
		section.Targets = append(section.Targets, atMost("Lateness "+name+" at 500/s with 16 partitions against one", 1.3, "×",
			late.ratio(i, many.name, one.name)))
	}
	section.Targets = append(section.Targets,
		neverEarly("with 16 partitions", late.of(many.name)),
		atMost("Commands per second that 1,000 waiting callers on 200 topics send", 3, "", idle.of(one.name).column(0)),
		atMost("Commands per second of 1,000 waiting callers on 200 topics and 16 partitions of 3 nodes", 16, "", idle.of(nodes.name).column(0)),
		atMost("Their connections, once what nobody needs is closed", 4+3, "", idle.of(nodes.name).column(1)))
	return section
}

// Columns of a life: µs of Redis's CPU time per job, for each stage and in total; the busiest node's
// share in percent; µs of the server's CPU time per moved job; jobs per second.
var (
	sumColumn   = len(lifeStages)
	shareColumn = len(lifeStages) + 1
	rateColumns = len(lifeStages) + 3
)

func lifeName(at place, w way) string { return fmt.Sprintf("Delayer, %s, %v", at.name, w) }

// lives measures the life of jobs in several places, each in all ways.
func (r *Run) lives(ctx context.Context, places []place) Rows {
	var contenders []contender
	for _, w := range ways {
		for _, at := range places {
			contenders = append(contenders, contender{name: lifeName(at, w), run: func() []float64 { return r.lifeOnce(ctx, at, w) }})
		}
	}
	return r.turns(r.pairRepeats, contenders)
}

// lifeTables returns the tables of CPU time and of jobs per second.
func lifeTables(rows Rows, id, where string) []Table {
	var cost, pace []Column
	for _, stage := range lifeStages {
		cost, pace = append(cost, Column{Name: stage, Digits: 1}), append(pace, Column{Name: stage})
	}
	cost = append(cost, Column{Name: "sum", Digits: 1}, Column{Name: "busiest node, %"}, Column{Name: "server", Digits: 1})
	var costs, rates Rows
	for _, row := range rows {
		costs = append(costs, Row{row.Name, row.Cells[:rateColumns]})
		rates = append(rates, Row{row.Name, row.Cells[rateColumns:]})
	}
	return []Table{
		{ID: id, Title: "Redis's CPU time per job, by partitions " + where, Unit: "µs", Columns: cost, Rows: costs},
		{ID: id + "-pace", Title: "Jobs per second, by partitions " + where, Unit: "jobs/s", Columns: pace, Rows: rates},
	}
}

// life is the life of that many jobs in a place.
type life struct {
	at       place
	client   *client.Client
	way      way
	jobs     int
	due      time.Time
	reserved []*client.Delivery
	server   time.Duration // CPU time of the server
}

// lifeOnce measures the life of jobs after warming up connections and scripts.
func (r *Run) lifeOnce(ctx context.Context, at place, w way) []float64 {
	at.clear()
	c := must(client.OpenPool(at.options))
	defer c.Close()
	l := &life{at: at, client: c, way: w, jobs: 64, due: time.Now().Add(time.Hour).Truncate(time.Second)}
	l.measure(ctx)
	l.jobs, l.server = share(r.partJobs, int(w)), 0
	return l.measure(ctx)
}

// measure returns a row of both tables.
func (l *life) measure(ctx context.Context) []float64 {
	used := make([]time.Duration, len(l.at.nodes))
	var costs, rates []float64
	for _, stage := range []struct{ prepare, run func(context.Context) }{
		{nothing, l.push},
		{func(context.Context) { l.at.makeDue() }, l.move},
		{nothing, l.take},
		{l.makeReady, l.reserve},
		{nothing, l.ack},
	} {
		stage.prepare(ctx)
		before := l.at.cpu()
		rates = append(rates, rate(l.jobs, func() { stage.run(ctx) }))
		var cost time.Duration
		for i, after := range l.at.cpu() {
			used[i] += after - before[i]
			cost += after - before[i]
		}
		costs = append(costs, l.perJob(cost))
	}
	var all time.Duration
	for _, u := range used {
		all += u
	}
	return append(append(costs, l.perJob(all), 100*float64(slices.Max(used))/float64(all), l.perJob(l.server)), rates...)
}

// perJob converts to µs per job.
func (l *life) perJob(used time.Duration) float64 {
	return float64(used.Nanoseconds()) / 1000 / float64(l.jobs)
}

func nothing(context.Context) {}

// each processes all jobs, one or pushChunk per call.
func (l *life) each(one func(i int) error, many func(from, n int)) {
	if l.way == batches {
		inChunks(l.jobs, many)
	} else {
		crowd(int(l.way), l.jobs, one)
	}
}

func (l *life) push(ctx context.Context) {
	l.each(func(i int) error {
		_, err := l.client.PushAt(ctx, jobOf(int64(i)), l.due)
		return err
	}, func(from, n int) { pushBatch(ctx, l.client, from, n, l.due) })
}

func (l *life) move(ctx context.Context) {
	before := ownCPU()
	oursMovesOn(ctx, l.at.options, l.jobs, 0)
	l.server = ownCPU() - before
}

func (l *life) take(ctx context.Context) {
	l.each(func(int) error {
		_, err := l.client.BPop(ctx, time.Second, topic)
		return err
	}, func(_, n int) {
		untilAll(n, func(left int) (int, error) {
			list, err := l.client.Fetch(ctx, popped(topic, left))
			return len(list), err
		})
	})
}

// makeReady pushes jobs that are due already.
func (l *life) makeReady(ctx context.Context) {
	l.reserved = make([]*client.Delivery, l.jobs)
	pushBatch(ctx, l.client, 0, l.jobs, time.Now().Add(-time.Second))
}

func (l *life) reserve(ctx context.Context) {
	const lease = time.Hour
	l.each(func(i int) (err error) {
		l.reserved[i], err = l.client.Reserve(ctx, lease, topic)
		return err
	}, func(from, n int) {
		untilAll(n, func(left int) (int, error) {
			list, err := l.client.Fetch(ctx, reserved(topic, left, lease))
			return copy(l.reserved[from+n-left:], list), err
		})
	})
}

func (l *life) ack(ctx context.Context) {
	l.each(func(i int) error { return l.reserved[i].Ack(ctx) }, func(from, n int) {
		must(l.client.AckBatch(ctx, l.reserved[from:from+n]))
	})
}

// steadyIn is a steady load on that many partitions.
func (r *Run) steadyIn(ctx context.Context, at place) contender {
	load := traffic{perSecond: 500, shortest: 50 * time.Millisecond, longest: 250 * time.Millisecond, workers: consumers}
	return r.steady(ctx, at.name, load, func(*Run) Peer { return newDelayerOn(at.options, 0) })
}

// waitingIn are callers that wait without jobs.
func (r *Run) waitingIn(ctx context.Context, at place) contender {
	return contender{name: at.name, run: func() []float64 {
		at.clear()
		c := must(client.OpenPool(at.options))
		defer c.Close()
		var gone quitters
		for i := range 1000 {
			go func() {
				c.BPop(ctx, time.Hour, fmt.Sprint(topic, i%200))
				gone.Add(1)
			}()
		}
		time.Sleep(r.idleFor) // until all wait, and checks find nothing
		connections := at.connections()
		sent := at.sent(func() { time.Sleep(r.idleFor) })
		gone.check()
		return []float64{float64(sent) / r.idleFor.Seconds(), connections}
	}}
}
