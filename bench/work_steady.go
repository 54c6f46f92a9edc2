package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const steadyAbout = `Jobs are pushed at a steady pace with delays of 0.05 s to 5 s, evenly spread, and 8 consumers note how long after its due time each
arrives. Delayer's server has timer_interval 1000. Where a queue knows whole seconds only (asynq and gocraft/work: due times; beanstalkd: delays; the original's
clients: due times), the due time is the whole second that follows, and the lateness counts from there, so rounding is not held against it; but then
a second's jobs fall due together. Early is a job that arrived before its due time. asynq's setting is the same as in the burst.`

type pace struct {
	title     string
	perSecond int
}

func benchSteady(ctx context.Context, r *Run) (Section, error) {
	section := Section{Title: "Steady load", About: steadyAbout}
	for _, load := range []pace{{"500 jobs a second", 500}, {"5,000 jobs a second", 5000}} {
		var contenders []contender
		for _, m := range r.peers() {
			if m.name == "Delayer, PopBatch" || m.slow && load.perSecond > 1000 {
				continue
			}
			c := contender{name: m.name, run: func() ([]float64, error) { return r.steadyOnce(ctx, m, load.perSecond) }}
			switch {
			case load.perSecond > 1000 && !r.fastPeers && m.name != "Delayer":
				continue
			case m.slow || load.perSecond > 1000 && m.name != "Delayer":
				c.repeats = 1
			case m.name != "Delayer":
				c.repeats = 2
			}
			contenders = append(contenders, c)
		}
		results := r.turns(r.slowRepeats, contenders)
		section.Tables = append(section.Tables, Table{
			ID: fmt.Sprintf("steady-%d", load.perSecond), Title: "Lateness at " + load.title, Head: "",
			Columns: []Column{{Name: "p50, ms", Digits: 2}, {Name: "p99, ms", Digits: 2}, {Name: "max, ms", Digits: 2}, {Name: "early, jobs"}, {Name: "pushed, jobs/s"}},
			Rows:    rows(contenders, results),
		})
		if o := results["Delayer"]; o != nil && load.perSecond == 500 {
			section.Targets = append(section.Targets,
				Target{Name: "Lateness p99 at 500/s, timer_interval 1000, delays of 0.05 s to 5 s", AtMost: true, Limit: 5, Unit: " ms", Got: o[1]},
				Target{Name: "Early deliveries at 500/s", AtMost: true, Worst: true, Limit: 0, Unit: " jobs", Got: o[3]})
		} else if o != nil {
			section.Targets = append(section.Targets, Target{Name: "Early deliveries at 5,000/s", AtMost: true, Worst: true, Limit: 0, Unit: " jobs", Got: o[3]})
		}
	}
	r.note("machinery is left out at 5,000 a second: it moves one job each look.")
	return section, nil
}

// steadyOnce returns p50, p99 and greatest lateness in ms, the number of early
// jobs and the pace at which jobs were pushed.
func (r *Run) steadyOnce(ctx context.Context, m maker, perSecond int) ([]float64, error) {
	if err := r.Redis.clear(); err != nil {
		return nil, err
	}
	p, err := m.open(r)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	jobs := int(r.steadyFor.Seconds() * float64(perSecond))
	late := make([]time.Duration, jobs)
	var arrived atomic.Int64
	done := make(chan struct{})
	err = p.Consume(ctx, consumers, func(body string) {
		at := time.Now()
		due, err := numberOf(body)
		n := arrived.Add(1)
		if err != nil || n > int64(jobs) {
			return
		}
		late[n-1] = at.Sub(time.UnixMicro(due))
		if n == int64(jobs) {
			close(done)
		}
	})
	if err != nil {
		return nil, err
	}
	time.Sleep(300 * time.Millisecond)

	started := time.Now()
	if err := r.pushSteadily(ctx, p, jobs, perSecond); err != nil {
		return nil, err
	}
	pushed := time.Since(started)
	select {
	case <-done:
	case <-time.After(60 * time.Second):
		return nil, fmt.Errorf("%d of %d jobs have come", arrived.Load(), jobs)
	}
	time.Sleep(20 * time.Millisecond)
	if n := arrived.Load(); n != int64(jobs) {
		return nil, fmt.Errorf("%d jobs came of %d", n, jobs)
	}
	early := 0
	for _, d := range late {
		if d < 0 {
			early++
		}
	}
	return []float64{
		milliseconds(quantile(late, 0.5)), milliseconds(quantile(late, 0.99)), milliseconds(quantile(late, 1)),
		float64(early), float64(jobs) / pushed.Seconds(),
	}, nil
}

// pushSteadily pushes at that pace with 32 goroutines; a job's body holds its due time.
func (r *Run) pushSteadily(ctx context.Context, p Peer, jobs, perSecond int) error {
	spread := int((r.maxDelay - 50*time.Millisecond).Milliseconds()) + 1
	turn := make(chan int, jobs)
	go func() {
		defer close(turn)
		started := time.Now()
		for sent := 0; sent < jobs; {
			for due := min(int(time.Since(started).Seconds()*float64(perSecond))+1, jobs); sent < due; sent++ {
				turn <- sent
			}
			time.Sleep(time.Millisecond)
		}
	}()
	errs := make(chan error, 32)
	var wg sync.WaitGroup
	for range 32 {
		wg.Go(func() {
			for n := range turn {
				now := time.Now()
				delay := 50*time.Millisecond + time.Duration(n*7919%spread)*time.Millisecond
				due := p.Round(now, now.Add(delay)).Truncate(time.Microsecond)
				if err := p.Push(ctx, int64(n), body(due.UnixMicro()), due); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}
