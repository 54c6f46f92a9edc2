package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// traffic is a steady load with evenly spread delays.
type traffic struct {
	perSecond         int
	shortest, longest time.Duration
	workers           int
}

func (r *Run) traffic(perSecond int) traffic {
	return traffic{perSecond, 50 * time.Millisecond, r.maxDelay, consumers}
}

// steadyColumns are the columns of steadyOnce.
var steadyColumns = append([]Column{
	{Name: "p50, ms", Digits: 2}, {Name: "p99, ms", Digits: 2}, {Name: "max, ms", Digits: 2}, {Name: "early, jobs"}, {Name: "pushed, jobs/s"},
}, usageColumns...)

func benchSteady(ctx context.Context, r *Run) Section {
	section := Section{Title: "Steady load"}
	for _, perSecond := range []int{500, 5000} {
		var contenders []contender
		for _, m := range allPeers {
			if m.name == "Delayer, Fetch" || !r.steadyPeers && !m.ours {
				continue
			}
			c := r.steady(ctx, m.name, r.traffic(perSecond), m.open)
			if m.name != "Delayer" {
				c.repeats = map[int]int{500: 2, 5000: 1}[perSecond]
			}
			contenders = append(contenders, c)
		}
		rows := r.turns(r.slowRepeats, contenders)
		section.Tables = append(section.Tables, Table{
			ID: fmt.Sprintf("steady-%d", perSecond), Title: fmt.Sprintf("Lateness at %s jobs per second", count(perSecond)),
			Columns: steadyColumns[:5], Rows: rows,
		})
		ours := rows.of("Delayer")
		if perSecond == 500 {
			section.Targets = append(section.Targets, atMost("Lateness p99 at 500/s, timer_interval 1000, delays of 0.05 s to 5 s", 5, " ms", ours.column(1)))
		}
		section.Targets = append(section.Targets, neverEarly(fmt.Sprintf("at %s/s", count(perSecond)), ours))
	}
	return section
}

// steady is a contender that starts with an empty Redis.
func (r *Run) steady(ctx context.Context, name string, load traffic, open func(*Run) Peer) contender {
	return r.alone(ctx, name, open, r.under(load))
}

func benchCrowded(ctx context.Context, r *Run) Section {
	section := Section{Title: "Steady load in a crowd"}
	table := Table{ID: "crowded", Title: "Lateness at 500 jobs per second while others wait", Columns: steadyColumns[:5]}
	seeded := 0
	for _, waiting := range r.crowds {
		if !r.roomFor(waiting - seeded) {
			continue
		}
		progress("  %s waiting", count(waiting))
		r.Redis.seedWaiting(seeded, waiting-seeded)
		seeded = waiting
		ours := contender{name: fmt.Sprintf("Delayer, %s others wait", count(waiting)), run: func() []float64 {
			return on(ctx, r.ours(), r.under(r.traffic(500)))
		}}
		rows := r.turns(r.slowRepeats, []contender{ours})
		table.Rows = append(table.Rows, rows...)
		among := fmt.Sprintf("at 500/s, 8 waiting callers, %s others in the pool", count(waiting))
		section.Targets = append(section.Targets,
			atMost("Lateness p99 "+among, 6, " ms", rows.of(ours.name).column(1)), neverEarly(among, rows.of(ours.name)))
	}
	section.Tables = []Table{table}
	return section
}

func benchFanout(ctx context.Context, r *Run) Section {
	const most = 300
	load := func(workers int) traffic { return traffic{500, 50 * time.Millisecond, 250 * time.Millisecond, workers} }
	contenders := []contender{r.steady(ctx, "Delayer, 1 Client with 20 callers", load(20), (*Run).ours)}
	name := func(clients int) string { return fmt.Sprintf("Delayer, Clients: %d", clients) }
	for _, clients := range []int{1, 10, 50, 100, most} {
		contenders = append(contenders, r.steady(ctx, name(clients), load(clients), func(r *Run) Peer {
			p := newDelayer(r.Redis, 0)
			for range clients {
				p.consuming = append(p.consuming, r.openClient())
			}
			return p
		}))
	}
	rows := r.turns(r.slowRepeats, contenders)
	last := len(steadyColumns) - 1
	return Section{
		Title:  "Many Clients",
		Tables: []Table{{ID: "fanout", Title: "Many Clients wait for one topic, 500 jobs per second", Columns: steadyColumns, Rows: rows}},
		Targets: []Target{
			atMost(fmt.Sprintf("Commands per job with %d Clients against one", most), 1.3, "×", rows.ratio(last, name(most), name(1))),
			atMost(fmt.Sprintf("Redis's CPU time per job with %d Clients against one", most), 1.3, "×", rows.ratio(last-2, name(most), name(1))),
		},
	}
}

// under measures a Peer under that load: lateness (p50, p99, maximum) in ms, the number of early jobs, the
// rate of pushes, and the usage.
func (r *Run) under(load traffic) func(ctx context.Context, p Peer) []float64 {
	return func(ctx context.Context, p Peer) []float64 { return r.steadyOnce(ctx, p, load) }
}

func (r *Run) steadyOnce(ctx context.Context, p Peer, load traffic) []float64 {
	var came arrivals
	p.Consume(ctx, load.workers, came.add)
	time.Sleep(300 * time.Millisecond)

	jobs := int(r.steadyFor.Seconds() * float64(load.perSecond))
	var pushed time.Duration
	used := r.usage(p, func() {
		started := time.Now()
		pushSteadily(ctx, p, jobs, load)
		pushed = time.Since(started)
		came.wait(jobs, time.Minute)
	})
	time.Sleep(20 * time.Millisecond)
	late := came.late()
	if len(late) != jobs {
		check(fmt.Errorf("%d jobs came of %d", len(late), jobs))
	}
	early := len(slices.DeleteFunc(late, func(d time.Duration) bool { return d >= 0 }))
	return append(append(came.lateness(), float64(early), float64(jobs)/pushed.Seconds()), used...)
}

// pushSteadily pushes at that rate from 32 goroutines; a job's body is its due time.
func pushSteadily(ctx context.Context, p Peer, jobs int, load traffic) {
	spread := int((load.longest - load.shortest).Milliseconds()) + 1
	turn := make(chan int, jobs)
	go func() {
		started := time.Now()
		for sent := 0; sent < jobs; {
			for due := min(int(time.Since(started).Seconds()*float64(load.perSecond))+1, jobs); sent < due; sent++ {
				turn <- sent
			}
			time.Sleep(time.Millisecond)
		}
	}()
	crowd(32, jobs, func(int) error {
		n := <-turn
		now := time.Now()
		delay := load.shortest + time.Duration(n*7919%spread)*time.Millisecond
		due := p.Round(now, now.Add(delay)).Truncate(time.Microsecond)
		return p.Push(ctx, int64(n), body(due.UnixMicro()), due)
	})
}
