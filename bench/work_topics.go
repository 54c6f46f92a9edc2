package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"golang.org/x/sync/errgroup"
)

// topicsEnd limits the time of a cell.
const topicsEnd = 10 * time.Second

func benchTopics(ctx context.Context, r *Run) (Section, error) {
	var commands, pace grid
	for _, partitions := range []int{1, 4, 16} {
		at := r.onOne(partitions)
		var contenders []contender
		for _, topics := range []int{1, 10, 100, 1000} {
			contenders = append(contenders, contender{name: topicsName(topics), run: func() ([]float64, error) { return r.topicsOnce(ctx, at, topics) }})
		}
		progress("  %s", at.name)
		results := r.turns(r.repeats, contenders)
		for i, g := range []*grid{&commands, &pace} {
			g.columns = append(g.columns, Column{Name: at.name, Digits: 1 - i})
			for k, row := range rows(contenders, results) {
				if len(g.rows) == k {
					g.rows = append(g.rows, Row{Name: row.Name})
				}
				g.rows[k].Cells = append(g.rows[k].Cells, row.Cells[i])
			}
		}
	}
	var steady []contender
	for _, partitions := range []int{1, 4, 16} {
		at := r.onOne(partitions)
		steady = append(steady, contender{name: "Delayer, " + at.name, run: func() ([]float64, error) { return r.topicsSteady(ctx, at) }})
	}
	late := r.turns(r.slowRepeats, steady)
	section := Section{
		Title: "Topics and partitions",
		Tables: []Table{
			commands.table(Table{ID: "topics-commands", Title: "Commands per job, by topics and partitions", Head: "topics"}),
			pace.table(Table{ID: "topics-pace", Title: "Jobs handled per second, by topics and partitions", Unit: "jobs/s", Head: "topics"}),
			{
				ID: "topics-steady", Title: "10 Clients, 1,000 topics, 500 jobs per second",
				Columns: []Column{{Name: "p50, ms", Digits: 2}, {Name: "p99, ms", Digits: 2}, {Name: "max, ms", Digits: 2}, {Name: "commands per job", Digits: 1}},
				Rows:    rows(steady, late),
			},
		},
	}
	for _, c := range []struct {
		topics int
		most   float64
		what   string
	}{{100, 1.6, ""}, {1000, 2, ", two jobs a queue"}} {
		name := fmt.Sprintf("%s topics with 16 partitions against one%s", count(c.topics), c.what)
		section.Targets = append(section.Targets,
			atMost("Commands per job of "+name, c.most, "×", commands.over(topicsName(c.topics), 2, 0)),
			Target{Name: "Jobs per second of " + name, Limit: 0.6, Unit: "×", Got: pace.over(topicsName(c.topics), 2, 0)})
	}
	return section, nil
}

func topicsName(topics int) string {
	if topics == 1 {
		return "Delayer, 1 topic"
	}
	return fmt.Sprintf("Delayer, %s topics", count(topics))
}

// over divides one of a row's columns by another.
func (g *grid) over(name string, column, other int) Sample {
	for _, row := range g.rows {
		if row.Name == name && len(row.Cells) > max(column, other) {
			return row.Cells[column].Over(row.Cells[other])
		}
	}
	return nil
}

// topicsOnce lets a worker handle jobs of that many topics and returns commands per job and jobs per second.
func (r *Run) topicsOnce(ctx context.Context, at place, topics int) ([]float64, error) {
	if err := at.clear(); err != nil {
		return nil, err
	}
	jobs := r.topicJobs
	if topics >= 1000 {
		jobs *= 4
	}
	c := client.OpenPool(at.options)
	defer c.Close()
	for from := 0; from < jobs; from += pushChunk {
		if err := pushTopics(ctx, c, from, min(pushChunk, jobs-from), topics); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, topicsEnd)
	defer cancel()
	var last time.Time
	all := newDrain(jobs)
	before, err := r.Redis.info("total_commands_processed")
	if err != nil {
		return nil, err
	}
	started := time.Now()
	var run errgroup.Group
	run.Go(func() error { return workTopics(ctx, c, topics, 50, all.take) })
	select {
	case <-all.done:
		last = all.last
	case <-ctx.Done():
		last = time.Now()
	}
	cancel()
	if err := run.Wait(); err != nil { // flushes the acknowledgements
		return nil, err
	}
	after, err := r.Redis.info("total_commands_processed")
	got := float64(all.got.Load())
	return []float64{(after - before) / got, got / last.Sub(started).Seconds()}, err
}

// pushTopics pushes ready jobs of that many topics.
func pushTopics(ctx context.Context, c *client.Client, from, n, topics int) error {
	jobs := make([]client.Delayed, n)
	for i := range jobs {
		number := int64(from + i)
		jobs[i] = client.Delayed{Message: client.Message{ID: id(number), Topic: fmt.Sprint(topic, number%int64(topics)), Body: body(number)}}
	}
	results, err := c.PushBatch(ctx, jobs)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	return err
}

// workTopics handles jobs of that many topics until ctx is done.
func workTopics(ctx context.Context, c *client.Client, topics, concurrency int, got func(body string)) error {
	mux := worker.NewMux()
	for i := range topics {
		mux.HandleFunc(fmt.Sprint(topic, i), func(_ context.Context, job *worker.Job) error {
			got(job.Body)
			return nil
		})
	}
	o := worker.Options{Concurrency: concurrency, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	return worker.New(c, mux, o).Run(ctx)
}

// topicsSteady lets several Clients handle a steady load: lateness (p50, p99, maximum) in ms, and commands
// per job.
func (r *Run) topicsSteady(ctx context.Context, at place) ([]float64, error) {
	const clients, topics, perSecond = 10, 1000, 500
	if err := at.clear(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var came arrivals
	var run errgroup.Group
	defer run.Wait()
	defer cancel()
	for range clients {
		c := client.OpenPool(at.options)
		defer c.Close()
		run.Go(func() error { return workTopics(ctx, c, topics, 10, came.add) })
	}
	time.Sleep(r.settle)
	producer := client.OpenPool(at.options)
	defer producer.Close()
	before, err := r.Redis.info("total_commands_processed")
	if err != nil {
		return nil, err
	}
	jobs := int(r.steadyFor.Seconds() * perSecond)
	started := time.Now()
	for i := range jobs {
		time.Sleep(time.Until(started.Add(time.Duration(i) * time.Second / perSecond)))
		now := time.Now().UnixMicro()
		m := client.Message{ID: id(int64(i)), Topic: fmt.Sprint(topic, rand.IntN(topics)), Body: body(now)}
		if _, err := producer.Push(ctx, m, 0); err != nil {
			return nil, err
		}
	}
	if err := came.wait(jobs, time.Minute); err != nil {
		return nil, err
	}
	after, err := r.Redis.info("total_commands_processed")
	return append(came.lateness(), (after-before)/float64(jobs)), err
}
