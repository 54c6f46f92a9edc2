package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/mix-basic/delayer/client"
	"golang.org/x/sync/errgroup"
)

func benchTopics(ctx context.Context, r *Run) Section {
	var commands, pace grid
	var steady []contender
	for _, partitions := range []int{1, 4, 16} {
		at := r.onOne(partitions)
		var contenders []contender
		for _, topics := range []int{1, 10, 100, 1000} {
			contenders = append(contenders, contender{name: "Delayer, " + plural(topics, "topic"), run: func() []float64 { return r.topicsOnce(ctx, at, topics) }})
		}
		progress("  %s", at.name)
		rows := r.turns(r.repeats, contenders)
		commands.add(Column{Name: at.name, Digits: 1}, rows, 0)
		pace.add(Column{Name: at.name}, rows, 1)
		steady = append(steady, contender{name: "Delayer, " + at.name, run: func() []float64 { return r.topicsSteady(ctx, at) }})
	}
	section := Section{
		Title: "Topics and partitions",
		Tables: []Table{
			commands.table("topics-commands", "Commands per job, by topics and partitions", "", "topics"),
			pace.table("topics-pace", "Jobs handled per second, by topics and partitions", "jobs/s", "topics"),
			{
				ID: "topics-steady", Title: "10 Clients, 1,000 topics, 500 jobs per second",
				Columns: []Column{{Name: "p50, ms", Digits: 2}, {Name: "p99, ms", Digits: 2}, {Name: "max, ms", Digits: 2}, {Name: "commands per job", Digits: 1}},
				Rows:    r.turns(r.slowRepeats, steady),
			},
		},
	}
	for _, c := range []struct {
		topics int
		most   float64
		what   string
	}{{100, 1.6, ""}, {1000, 2, ", two jobs a queue"}} {
		name := fmt.Sprintf("%s topics with 16 partitions against one%s", count(c.topics), c.what)
		against := func(g grid) Sample {
			row := g.rows.of("Delayer, " + plural(c.topics, "topic"))
			return row.column(2).Over(row.column(0))
		}
		section.Targets = append(section.Targets,
			atMost("Commands per job of "+name, c.most, "×", against(commands)), atLeast("Jobs per second of "+name, 0.6, against(pace)))
	}
	return section
}

// topicsOnce lets a worker handle jobs of that many topics and returns commands per job and jobs per second.
func (r *Run) topicsOnce(ctx context.Context, at place, topics int) []float64 {
	at.clear()
	jobs := r.topicJobs
	if topics >= 1000 {
		jobs *= 4
	}
	c := must(client.OpenPool(at.options))
	defer c.Close()
	inChunks(jobs, func(from, n int) {
		pushAll(ctx, c, n, func(i int) client.Item {
			m := jobOf(int64(from + i))
			m.Topic = fmt.Sprint(topic, (from+i)%topics)
			return client.Item{Message: m}
		})
	})
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var came arrivals
	before, started := r.Redis.commands(), time.Now()
	var run errgroup.Group
	run.Go(func() error { return work(ctx, c, 50, came.add, topicNames(topics)...) })
	for ctx.Err() == nil && came.count() < jobs {
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	check(run.Wait()) // flushes the acknowledgements
	got := float64(came.count())
	if got == 0 {
		check(errEmpty)
	}
	return []float64{(r.Redis.commands() - before) / got, got / came.at[len(came.at)-1].Sub(started).Seconds()}
}

// topicNames are the names of that many topics.
func topicNames(topics int) []string {
	names := make([]string, topics)
	for i := range names {
		names[i] = fmt.Sprint(topic, i)
	}
	return names
}

// topicsSteady lets several Clients handle a steady load: lateness (p50, p99, maximum) in ms, and commands
// per job.
func (r *Run) topicsSteady(ctx context.Context, at place) []float64 {
	const clients, topics, perSecond = 10, 1000, 500
	at.clear()
	var came arrivals
	var run errgroup.Group
	defer run.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range clients {
		c := must(client.OpenPool(at.options))
		defer c.Close()
		run.Go(func() error { return work(ctx, c, 10, came.add, topicNames(topics)...) })
	}
	time.Sleep(r.settle)
	producer := must(client.OpenPool(at.options))
	defer producer.Close()
	before := r.Redis.commands()
	jobs := int(r.steadyFor.Seconds() * perSecond)
	started := time.Now()
	for i := range jobs {
		time.Sleep(time.Until(started.Add(time.Duration(i) * time.Second / perSecond)))
		now := time.Now().UnixMicro()
		m := client.Message{ID: id(int64(i)), Topic: fmt.Sprint(topic, rand.IntN(topics)), Body: body(now)}
		must(producer.Push(ctx, m, 0))
	}
	came.wait(jobs, time.Minute)
	return append(came.lateness(), (r.Redis.commands()-before)/float64(jobs))
}
