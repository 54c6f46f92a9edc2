package main

import (
	"context"
	"errors"
	"fmt"
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
			list, err := c.ReserveBatch(ctx, topic, scriptChunk, time.Hour)
			return len(list), err
		})
	}
	grouped := func(c *client.Client, i int) error {
		group := client.Group("key", client.GroupOptions{Max: 100, Longest: time.Hour})
		_, err := c.Push(ctx, client.Message{Topic: topic, Body: body(int64(i))}, 0, group)
		return err
	}
	none := func(*client.Client) {}
	once, debounce := client.Once(time.Hour), client.Debounce(2*time.Hour)
	return []contender{
		r.feature(ctx, "Delayer, a new ID", none, push()),
		r.feature(ctx, "Delayer, Once", none, push(once)),
		r.feature(ctx, "Delayer, OnceAs", none, push(client.OnceAs(time.Hour, "content"))),
		r.feature(ctx, "Delayer, Once, of an ID that has counted", pushed(once), push(once)),
		r.feature(ctx, "Delayer, to groups of 100", none, grouped),
		r.feature(ctx, "Delayer, of an ID that waits: replaces", pushed(), push()),
		r.feature(ctx, "Delayer, of an ID that waits: Debounce", pushed(debounce), push(debounce)),
		r.feature(ctx, "Delayer, of an ID that is reserved: Follow", reserved, push(client.Follow)),
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
		d, err := c.Reserve(ctx, time.Second, time.Minute, topic)
		if err != nil {
			return err
		}
		_, err = c.Push(ctx, client.Message{ID: d.ID, Topic: topic, Body: body(int64(i))}, 0, client.Follow)
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
		d, err := c.Reserve(ctx, time.Second, time.Minute, topic)
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
		_, err := c.Schedule(ctx, client.Schedule{Name: fmt.Sprint("report", i), Every: period, Topic: scheduleTopic, Body: body(int64(i))})
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
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		due := must(redis.Int(p.redis.do("ZCOUNT", poolKey, "-inf", float64(time.Now().UnixMilli()-20)/1000), nil))
		if due == 0 {
			return
		}
		if time.Now().After(deadline) {
			check(fmt.Errorf("%d jobs are overdue", due))
		}
	}
}
