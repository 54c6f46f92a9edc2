package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

func benchFeatures(ctx context.Context, r *Run) Section {
	pushed, taken := r.turns(r.repeats, r.featurePushes(ctx)), r.turns(r.repeats, r.featureTakes(ctx))
	beside := r.besideSchedules(ctx)
	late := beside[len(beside)-1]
	section := Section{
		Title: "Once, groups, pauses, schedules, limits",
		Tables: []Table{
			{ID: "features-push", Title: "Push", Columns: featureColumns, Rows: pushed},
			{ID: "features-take", Title: "Reserve and acknowledge", Columns: featureColumns, Rows: taken},
			{ID: "features-schedules", Title: "Lateness at 500 jobs per second, next to schedules", Columns: steadyColumns[:6], Rows: beside},
		},
		Targets: []Target{
			atMost("Lateness p99 at 500/s, next to "+count(r.schedules)+" schedules", 5, " ms", late.column(1)),
			neverEarly("next to schedules", late),
		},
	}
	tables, targets := r.limits(ctx)
	section.Tables, section.Targets = append(section.Tables, tables...), append(section.Targets, targets...)
	return section
}

var featureColumns = []Column{{Name: "jobs/s"}, {Name: "Redis, µs of CPU per job", Digits: 1}}

// feature is a contender with our client on an empty Redis. prepare is not measured; do is, for each job.
func (r *Run) feature(ctx context.Context, name string, prepare func(c *client.Client), do func(c *client.Client, i int) error) contender {
	return r.featureOnce(ctx, name, prepare, func(c *client.Client) {
		crowd(1, r.cpuJobs, func(i int) error { return do(c, i) })
	})
}

// featureOnce is feature with a do for all jobs.
func (r *Run) featureOnce(ctx context.Context, name string, prepare, do func(c *client.Client)) contender {
	return contender{name: name, run: func() []float64 {
		c := r.openClient()
		defer c.Close()
		r.Redis.clear()
		prepare(c)
		check(c.Ping(ctx))
		return r.rateAndCPU(r.cpuJobs, func() { do(c) })
	}}
}

func (r *Run) featurePushes(ctx context.Context) []contender {
	due := time.Now().Add(time.Hour).Truncate(time.Second)
	push := func(options ...client.PushOption) func(c *client.Client, i int) error {
		return func(c *client.Client, i int) error {
			_, err := c.PushAt(ctx, jobOf(int64(i)), due, options...)
			if errors.Is(err, client.ErrExists) {
				return nil
			}
			return err
		}
	}
	pushed := func(options ...client.PushOption) func(c *client.Client) {
		return func(c *client.Client) {
			crowd(32, r.cpuJobs, func(i int) error { return push(options...)(c, i) })
		}
	}
	reserved := func(c *client.Client) {
		r.backlog(ctx)(c)
		untilAll(r.cpuJobs, func(int) (int, error) {
			list, err := c.Fetch(ctx, reserved(topic, scriptChunk, time.Hour))
			return len(list), err
		})
	}
	grouped := func(c *client.Client, i int) error {
		group := client.Group{Key: "key", Max: 100, Longest: time.Hour}
		_, err := c.Push(ctx, client.Message{Topic: topic, Body: body(int64(i))}, 0, group)
		return err
	}
	none := func(*client.Client) {}
	once, debounce := client.IfExists(client.Once(time.Hour)), client.IfExists(client.Debounce(2*time.Hour))
	return []contender{
		r.feature(ctx, "Delayer, a new ID", none, push()),
		r.feature(ctx, "Delayer, Once", none, push(once)),
		r.feature(ctx, "Delayer, OnceAs", none, push(client.IfExists(client.OnceAs(time.Hour, "content")))),
		r.feature(ctx, "Delayer, Once, of an ID that has counted", pushed(once), push(once)),
		r.feature(ctx, "Delayer, to groups of 100", none, grouped),
		r.feature(ctx, "Delayer, of an ID that waits: replaces", pushed(), push()),
		r.feature(ctx, "Delayer, of an ID that waits: Debounce", pushed(debounce), push(debounce)),
		r.feature(ctx, "Delayer, of an ID that is reserved: Follow", reserved, push(client.IfExists(client.Follow()))),
	}
}

// backlog pushes the jobs of featurePushes, all ready.
func (r *Run) backlog(ctx context.Context) func(c *client.Client) {
	return func(c *client.Client) {
		inChunks(r.cpuJobs, func(from, n int) { pushBatch(ctx, c, from, n, time.Unix(1, 0)) })
	}
}

func (r *Run) featureTakes(ctx context.Context) []contender {
	take := reserveAndAck(ctx)
	pausedBeside := func(c *client.Client) {
		r.Redis.seed(unlikely, r.batchJobs, 2, "ready", 0)
		check(c.Pause(ctx, topic+"0", client.PauseOptions{}))
		r.backlog(ctx)(c)
	}
	follows := func(c *client.Client, i int) error {
		d, err := c.Reserve(ctx, time.Minute, topic)
		if err != nil {
			return err
		}
		_, err = c.Push(ctx, client.Message{ID: d.ID, Topic: topic, Body: body(int64(i))}, 0, client.IfExists(client.Follow()))
		return errors.Join(err, d.Ack(ctx))
	}
	return []contender{
		r.feature(ctx, "Delayer", r.backlog(ctx), take),
		r.feature(ctx, "Delayer, next to a paused topic with "+count(r.batchJobs/2)+" jobs", pausedBeside, take),
		r.feature(ctx, "Delayer, and push one that follows meanwhile", r.backlog(ctx), follows),
	}
}

// reserveAndAck reserves and acknowledges a job.
func reserveAndAck(ctx context.Context) func(c *client.Client, _ int) error {
	return func(c *client.Client, _ int) error {
		d, err := c.Reserve(ctx, time.Minute, topic)
		if err != nil {
			return err
		}
		return d.Ack(ctx)
	}
}

const scheduleTopic = "report" // topic of the periodic jobs

// besideSchedules measures the lateness under a steady load, with and without periodic jobs.
func (r *Run) besideSchedules(ctx context.Context) Rows {
	const apart = 6 * time.Millisecond // 10,000 per minute
	period := apart * time.Duration(r.schedules)
	scheduled := &Run{Redis: startRedis(), sizes: r.sizes}
	defer scheduled.Redis.stop()
	c := scheduled.openClient()
	defer c.Close()
	began := time.Now()
	crowd(8, r.schedules, func(i int) error {
		time.Sleep(time.Until(began.Add(time.Duration(i) * apart)))
		_, err := c.Schedules().Set(ctx, client.Schedule{Name: fmt.Sprint("report", i), Every: period, Topic: scheduleTopic, Body: body(int64(i))})
		return err
	})
	load := r.traffic(500)
	beside := func() []float64 {
		return on(ctx, scheduled.ours(), func(ctx context.Context, p Peer) []float64 {
			go consume(ctx, p.(*delayer).client, scheduleTopic, takeChunk, func(string) {})
			return scheduled.steadyOnce(ctx, &caughtUp{p.(*delayer), scheduled.Redis}, load)
		})
	}
	return r.turns(r.slowRepeats, []contender{
		r.steady(ctx, "Delayer", load, (*Run).ours),
		{name: fmt.Sprintf("Delayer, next to %s schedules, each with a job in %v", count(r.schedules), period), run: beside},
	})
}

// caughtUp is ours, with the load starting when nothing is overdue.
type caughtUp struct {
	*delayer
	redis *Redis
}

func (p *caughtUp) Consume(ctx context.Context, workers int, got func(body string)) {
	p.delayer.Consume(ctx, workers, got)
	await(time.Minute, 50*time.Millisecond, "jobs are overdue", func() int {
		return must(redis.Int(p.redis.do("ZCOUNT", poolKey, "-inf", float64(time.Now().UnixMilli()-20)/1000), nil))
	})
}

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
		check(work(ctx, c, consumers, func(string) {
			if handled.Add(1) == int64(r.cpuJobs) {
				cancel()
			}
		}, topic))
	})
}

const limitedTopic = "limited"

// besideLimit measures the lateness under a steady load, next to another topic whose limit keeps a backlog.
func (r *Run) besideLimit(ctx context.Context, p Peer) []float64 {
	c := r.openClient() // of another program
	defer c.Close()
	inChunks(r.batchJobs, func(from, n int) {
		pushAll(ctx, c, n, func(i int) client.Item {
			return client.Item{Message: client.Message{ID: fmt.Sprint(limitedTopic, from+i), Topic: limitedTopic, Body: body(int64(i))}}
		})
	})
	check(c.SetLimit(ctx, limitedTopic, client.Limit{Concurrency: 4}))
	for range 8 {
		go func() {
			for ctx.Err() == nil {
				if d, err := c.Reserve(ctx, time.Minute, limitedTopic); err == nil {
					time.Sleep(100 * time.Millisecond)
					d.Ack(ctx)
				}
			}
		}()
	}
	return r.steadyOnce(ctx, p, r.traffic(500))
}
