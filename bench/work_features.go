package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/client"
)

func benchFeatures(ctx context.Context, r *Run) (Section, error) {
	pushes, takes := r.featurePushes(ctx), r.featureTakes(ctx)
	pushed := r.turns(r.repeats, pushes)
	taken := r.turns(r.repeats, takes)
	section := Section{Title: "Once, groups, pauses, schedules, limits", Tables: []Table{
		{ID: "features-push", Title: "Push", Columns: featureColumns, Rows: rows(pushes, pushed)},
		{ID: "features-take", Title: "Reserve and acknowledge", Columns: featureColumns, Rows: rows(takes, taken)},
	}}
	beside, err := r.withSchedules(ctx)
	if err != nil {
		return section, err
	}
	section.Tables = append(section.Tables, beside)
	late := beside.Rows[len(beside.Rows)-1]
	section.Targets = []Target{
		{Name: "Lateness p99 at 500/s, next to " + count(r.schedules) + " schedules", AtMost: true, Limit: 5, Unit: " ms", Got: late.Cells[1]},
		neverEarly("next to schedules", late.Cells),
	}
	tables, targets := r.limits(ctx)
	section.Tables, section.Targets = append(section.Tables, tables...), append(section.Targets, targets...)
	return section, nil
}

var featureColumns = []Column{{Name: "jobs/s"}, {Name: "Redis, µs of CPU per job", Digits: 1}}

// feature is a contender with our client on an empty Redis. prepare is not measured; do is, for each job.
func (r *Run) feature(ctx context.Context, name string, prepare func(c *client.Client) error, do func(c *client.Client, i int) error) contender {
	return r.featureOnce(ctx, name, prepare, func(c *client.Client) error {
		return crowd(1, r.cpuJobs, func(i int) error { return do(c, i) })
	})
}

// featureOnce is feature with a do for all jobs.
func (r *Run) featureOnce(ctx context.Context, name string, prepare, do func(c *client.Client) error) contender {
	return contender{name: name, run: func() ([]float64, error) {
		c := client.OpenPool(client.PoolOptions{Addr: r.Redis.addr})
		defer c.Close()
		err := r.Redis.clear()
		if err == nil && prepare != nil {
			err = prepare(c)
		}
		if err == nil {
			err = c.Ping(ctx)
		}
		if err != nil {
			return nil, err
		}
		var perSecond float64
		used, err := cpuOf(r.cpuJobs, r.Redis.cpu, func() (err error) {
			perSecond, err = rate(r.cpuJobs, func() error { return do(c) })
			return err
		})
		return []float64{perSecond, used}, err
	}}
}

func (r *Run) featurePushes(ctx context.Context) []contender {
	due := time.Now().Add(time.Hour).Truncate(time.Second)
	push := func(options ...client.PushOption) func(c *client.Client, i int) error {
		return func(c *client.Client, i int) error {
			_, err := c.PushAt(ctx, client.Message{ID: id(int64(i)), Topic: topic, Body: body(int64(i))}, due, options...)
			if errors.Is(err, client.ErrExists) {
				return nil
			}
			return err
		}
	}
	pushed := func(options ...client.PushOption) func(c *client.Client) error {
		return func(c *client.Client) error {
			return crowd(32, r.cpuJobs, func(i int) error { return push(options...)(c, i) })
		}
	}
	once, debounce, follow := client.Once(time.Hour), client.Debounce(2*time.Hour), client.Follow
	hundred := client.Group("key", client.GroupOptions{Max: 100, Longest: time.Hour})
	return []contender{
		r.feature(ctx, "Delayer, a new ID", nil, push()),
		r.feature(ctx, "Delayer, Once", nil, push(once)),
		r.feature(ctx, "Delayer, OnceAs", nil, push(client.OnceAs(time.Hour, "content"))),
		r.feature(ctx, "Delayer, Once, of an ID that has counted", pushed(once), push(once)),
		r.feature(ctx, "Delayer, to groups of 100", nil, func(c *client.Client, i int) error {
			_, err := c.Push(ctx, client.Message{Topic: topic, Body: body(int64(i))}, 0, hundred)
			return err
		}),
		r.feature(ctx, "Delayer, of an ID that waits: replaces", pushed(), push()),
		r.feature(ctx, "Delayer, of an ID that waits: Debounce", pushed(debounce), push(debounce)),
		r.feature(ctx, "Delayer, of an ID that is reserved: Follow", r.allReserved(ctx), push(follow)),
	}
}

// allReserved pushes the jobs of featurePushes and reserves them.
func (r *Run) allReserved(ctx context.Context) func(c *client.Client) error {
	return func(c *client.Client) error {
		err := r.backlog(ctx)(c)
		for left := r.cpuJobs; err == nil && left > 0; {
			var list []*client.Delivery
			if list, err = c.ReserveBatch(ctx, topic, scriptChunk, time.Hour); len(list) == 0 {
				return errors.Join(err, fmt.Errorf("%d jobs can't be reserved", left))
			}
			left -= len(list)
		}
		return err
	}
}

// backlog pushes the jobs of featurePushes, all ready.
func (r *Run) backlog(ctx context.Context) func(c *client.Client) error {
	return func(c *client.Client) error {
		for from := 0; from < r.cpuJobs; from += pushChunk {
			if err := pushBatch(ctx, c, int64(from), int64(min(pushChunk, r.cpuJobs-from)), time.Unix(1, 0)); err != nil {
				return err
			}
		}
		return nil
	}
}

func (r *Run) featureTakes(ctx context.Context) []contender {
	take := reserveAndAck(ctx)
	pausedBeside := func(c *client.Client) error {
		err := errors.Join(r.Redis.seedWith(others, r.batchJobs, 2, "ready", 0), c.Pause(ctx, topic+"0", client.PauseOptions{}))
		return errors.Join(err, r.backlog(ctx)(c))
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

// withSchedules measures the lateness under a steady load, with and without periodic jobs.
func (r *Run) withSchedules(ctx context.Context) (Table, error) {
	other, err := startRedis()
	if err != nil {
		return Table{}, err
	}
	defer other.stop()
	scheduled := &Run{Redis: other, sizes: r.sizes}
	period, err := scheduled.makeSchedules(ctx)
	if err != nil {
		return Table{}, err
	}
	load := r.traffic(500)
	alone := r.steady(ctx, "Delayer", load, oursAnew(r))
	beside := contender{name: fmt.Sprintf("Delayer, next to %s schedules, each with a job in %v", count(r.schedules), period), run: func() ([]float64, error) {
		return on(ctx, oursAnew(scheduled), func(ctx context.Context, p Peer) ([]float64, error) {
			go consume(ctx, p.(*delayer).client, scheduleTopic, takeChunk, func(string) {})
			return scheduled.steadyOnce(ctx, &caughtUp{p.(*delayer), other}, load)
		})
	}}
	contenders := []contender{alone, beside}
	return Table{
		ID: "features-schedules", Title: "Lateness at 500 jobs per second, next to schedules", Columns: steadyColumns[:6],
		Rows: rows(contenders, r.turns(r.slowRepeats, contenders)),
	}, nil
}

// makeSchedules creates schedules with evenly spread occurrences.
func (r *Run) makeSchedules(ctx context.Context) (period time.Duration, err error) {
	const apart = 6 * time.Millisecond // 10,000 per minute
	period = apart * time.Duration(r.schedules)
	c := client.OpenPool(client.PoolOptions{Addr: r.Redis.addr})
	defer c.Close()
	began := time.Now()
	return period, crowd(8, r.schedules, func(i int) error {
		time.Sleep(time.Until(began.Add(time.Duration(i) * apart)))
		_, err := c.Schedule(ctx, client.Schedule{Name: fmt.Sprint("report", i), Every: period, Topic: scheduleTopic, Body: body(int64(i))})
		return err
	})
}

// caughtUp is ours, with the load starting when nothing is overdue.
type caughtUp struct {
	*delayer
	redis *Redis
}

func (p *caughtUp) Consume(ctx context.Context, workers int, got func(body string)) error {
	err := p.delayer.Consume(ctx, workers, got)
	for deadline := time.Now().Add(time.Minute); err == nil; time.Sleep(50 * time.Millisecond) {
		var due int
		due, err = redis.Int(p.redis.do("ZCOUNT", poolKey, "-inf", float64(time.Now().UnixMilli()-20)/1000))
		if due == 0 {
			break
		}
		if time.Now().After(deadline) {
			err = fmt.Errorf("%d jobs are overdue", due)
		}
	}
	return err
}
