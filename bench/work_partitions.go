package main

import (
	"context"
	"errors"
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
	return crowdColumn(int(w)).Name
}

// lifeStages are the measured stages of a job's life.
var lifeStages = []string{"push", "move", "take", "reserve", "ack"}

func benchPartitions(ctx context.Context, r *Run) (Section, error) {
	var clusters [3]place
	var started errgroup.Group
	defer func() {
		for _, c := range clusters {
			c.stop()
		}
	}()
	for i := range clusters {
		started.Go(func() (err error) {
			clusters[i], err = startCluster(i+1, 16)
			return err
		})
	}
	one, many := r.onOne(1), r.onOne(16)
	divided := r.lives(ctx, []place{one, r.onOne(4), many})
	if err := started.Wait(); err != nil { // takes a node two seconds, mostly idle
		return Section{}, err
	}
	nodes := clusters[2]
	spread := r.lives(ctx, clusters[:])
	steady := []contender{r.steadyIn(ctx, one), r.steadyIn(ctx, many)}
	late := r.turns(r.pairRepeats, steady)
	waiting := []contender{r.waitingIn(ctx, one), r.waitingIn(ctx, many), r.waitingIn(ctx, nodes)}
	idle := r.turns(min(2, r.slowRepeats), waiting)

	section := Section{
		Title: "Partitions",
		Tables: append(append(
			divided.tables("partitions", "of one Redis"),
			spread.tables("partitions-nodes", "of a Redis Cluster with 16 partitions")...),
			Table{ID: "partitions-late", Title: "Lateness at 500 jobs per second with partitions", Columns: steadyColumns, Rows: rows(steady, late)},
			Table{
				ID: "partitions-waiting", Title: "1,000 callers wait on 200 topics with partitions",
				Columns: []Column{{Name: "sent per second", Digits: 1}, {Name: "connections"}}, Rows: rows(waiting, idle),
			}),
	}
	for _, w := range ways {
		section.Targets = append(section.Targets, atMost("Redis's CPU time per job with 16 partitions against one, "+w.String(), 1.3, "×",
			divided.of(many, w).column(sumColumn).Over(divided.of(one, w).column(sumColumn))))
	}
	for i, name := range []string{"p50", "p99"} {
		section.Targets = append(section.Targets, atMost("Lateness "+name+" at 500/s with 16 partitions against one", 1.3, "×",
			late[many.name].column(i).Over(late[one.name].column(i))))
	}
	section.Targets = append(section.Targets,
		neverEarly("with 16 partitions", late[many.name]),
		atMost("Commands per second of 1,000 waiting callers on 200 topics and 16 partitions of 3 nodes", 16, "", idle[nodes.name].column(0)),
		atMost("Their connections, once what nobody needs is closed", 4+3, "", idle[nodes.name].column(1)))
	return section, nil
}

func atMost(name string, limit float64, unit string, got Sample) Target {
	return Target{Name: name, AtMost: true, Limit: limit, Unit: unit, Got: got}
}

// Columns of a life: µs of Redis's CPU time per job, for each stage and in total; the busiest node's
// share in percent; µs of the server's CPU time per moved job; jobs per second.
var (
	sumColumn    = len(lifeStages)
	shareColumn  = len(lifeStages) + 1
	serverColumn = len(lifeStages) + 2
	rateColumns  = len(lifeStages) + 3
)

// lives measures the life of jobs in several places, each in all ways.
type lives struct {
	contenders []contender
	results    map[string]outcome
}

func lifeName(at place, w way) string { return fmt.Sprintf("Delayer, %s, %v", at.name, w) }

func (r *Run) lives(ctx context.Context, places []place) lives {
	var l lives
	for _, w := range ways {
		for _, at := range places {
			l.contenders = append(l.contenders, contender{name: lifeName(at, w), run: func() ([]float64, error) { return r.lifeOnce(ctx, at, w) }})
		}
	}
	l.results = r.turns(r.pairRepeats, l.contenders)
	return l
}

func (l lives) of(at place, w way) outcome { return l.results[lifeName(at, w)] }

// tables returns the tables of CPU time and of jobs per second.
func (l lives) tables(id, where string) []Table {
	var cost, pace []Column
	for _, stage := range lifeStages {
		cost, pace = append(cost, Column{Name: stage, Digits: 1}), append(pace, Column{Name: stage})
	}
	cost = append(cost, Column{Name: "sum", Digits: 1}, Column{Name: "busiest node, %"}, Column{Name: "server", Digits: 1})
	all := rows(l.contenders, l.results)
	rates := slices.Clone(all)
	for i, row := range all {
		all[i].Cells, rates[i].Cells = row.Cells[:rateColumns], row.Cells[rateColumns:]
	}
	return []Table{
		{ID: id, Title: "Redis's CPU time per job, by partitions " + where, Unit: "µs", Columns: cost, Rows: all},
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
func (r *Run) lifeOnce(ctx context.Context, at place, w way) ([]float64, error) {
	if err := at.clear(); err != nil {
		return nil, err
	}
	c := client.OpenPool(at.options)
	defer c.Close()
	due := time.Now().Add(time.Hour).Truncate(time.Second)
	first := &life{at: at, client: c, way: w, jobs: 64, due: due}
	if _, err := first.measure(ctx); err != nil {
		return nil, err
	}
	return (&life{at: at, client: c, way: w, jobs: share(r.partJobs, int(w)), due: due}).measure(ctx)
}

// measure returns a row of both tables.
func (l *life) measure(ctx context.Context) ([]float64, error) {
	used := make([]time.Duration, len(l.at.nodes))
	var costs, rates []float64
	for _, stage := range []struct{ prepare, run func(context.Context) error }{
		{nothing, l.push},
		{l.makeDue, l.move},
		{nothing, l.take},
		{l.makeReady, l.reserve},
		{nothing, l.ack},
	} {
		if err := stage.prepare(ctx); err != nil {
			return nil, err
		}
		before, err := l.at.cpu()
		if err != nil {
			return nil, err
		}
		pace, err := rate(l.jobs, func() error { return stage.run(ctx) })
		if err != nil {
			return nil, err
		}
		after, err := l.at.cpu()
		if err != nil {
			return nil, err
		}
		var cost time.Duration
		for i := range used {
			used[i] += after[i] - before[i]
			cost += after[i] - before[i]
		}
		costs, rates = append(costs, l.perJob(cost)), append(rates, pace)
	}
	var all time.Duration
	for _, u := range used {
		all += u
	}
	return append(append(costs, l.perJob(all), 100*float64(slices.Max(used))/float64(all), l.perJob(l.server)), rates...), nil
}

// perJob converts to µs per job.
func (l *life) perJob(used time.Duration) float64 {
	return float64(used.Nanoseconds()) / 1000 / float64(l.jobs)
}

func nothing(context.Context) error { return nil }

// each processes all jobs, one or pushChunk per call.
func (l *life) each(one func(i int) error, many func(from, n int64) error) error {
	if l.way != batches {
		return crowd(int(l.way), l.jobs, one)
	}
	for from := 0; from < l.jobs; from += pushChunk {
		if err := many(int64(from), int64(min(pushChunk, l.jobs-from))); err != nil {
			return err
		}
	}
	return nil
}

func (l *life) push(ctx context.Context) error {
	return l.each(func(i int) error {
		_, err := l.client.PushAt(ctx, client.Message{ID: id(int64(i)), Topic: topic, Body: body(int64(i))}, l.due)
		return err
	}, func(from, n int64) error { return pushBatch(ctx, l.client, from, n, l.due) })
}

func (l *life) makeDue(context.Context) error { return l.at.makeDue() }

func (l *life) move(ctx context.Context) error {
	before := ownCPU()
	_, err := oursMovesOn(ctx, l.at.options, l.jobs, 0)
	l.server = ownCPU() - before
	return err
}

func (l *life) take(ctx context.Context) error {
	return l.each(func(int) error {
		_, err := l.client.BPop(ctx, time.Second, topic)
		return err
	}, func(_, n int64) error {
		return untilAll(n, func(left int) (int, error) {
			list, err := l.client.PopBatch(ctx, topic, left)
			return len(list), err
		})
	})
}

// makeReady pushes jobs that are due already.
func (l *life) makeReady(ctx context.Context) error {
	l.reserved = make([]*client.Delivery, l.jobs)
	return pushBatch(ctx, l.client, 0, int64(l.jobs), time.Now().Add(-time.Second))
}

func (l *life) reserve(ctx context.Context) error {
	const lease = time.Hour
	return l.each(func(i int) (err error) {
		l.reserved[i], err = l.client.Reserve(ctx, time.Second, lease, topic)
		return err
	}, func(from, n int64) error {
		return untilAll(n, func(left int) (int, error) {
			list, err := l.client.ReserveBatch(ctx, topic, left, lease)
			return copy(l.reserved[from+n-int64(left):], list), err
		})
	})
}

func (l *life) ack(ctx context.Context) error {
	return l.each(func(i int) error { return l.reserved[i].Ack(ctx) }, func(from, n int64) error {
		_, err := l.client.AckBatch(ctx, l.reserved[from:from+n])
		return err
	})
}

// untilAll takes n jobs, as many at a time as there are.
func untilAll(n int64, take func(left int) (int, error)) error {
	for left := int(n); left > 0; {
		got, err := take(left)
		if err != nil {
			return err
		}
		if got == 0 {
			return errEmpty
		}
		left -= got
	}
	return nil
}

// steadyIn is a steady load on that many partitions.
func (r *Run) steadyIn(ctx context.Context, at place) contender {
	load := traffic{perSecond: 500, shortest: 50 * time.Millisecond, longest: 250 * time.Millisecond, workers: consumers}
	return r.steady(ctx, at.name, load, func() (Peer, error) { return newDelayerOn(at.options, 0), nil })
}

// waitingIn are callers that wait without jobs.
func (r *Run) waitingIn(ctx context.Context, at place) contender {
	return contender{name: at.name, run: func() ([]float64, error) {
		if err := at.clear(); err != nil {
			return nil, err
		}
		c := client.OpenPool(at.options)
		defer c.Close()
		gone := waitInVain(ctx, c, 1000, 200)
		time.Sleep(r.thinned)
		connections, wrong := at.connections()
		sent, err := at.sent(func() { time.Sleep(r.idleFor) })
		if n := gone.Load(); n > 0 {
			return nil, fmt.Errorf("%d callers wait no more", n)
		}
		return []float64{float64(sent) / r.idleFor.Seconds(), float64(connections)}, errors.Join(wrong, err)
	}}
}
