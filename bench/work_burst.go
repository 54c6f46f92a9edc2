package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

var burstColumns = []Column{{Name: "jobs/s"}, {Name: "first job after, ms", Digits: 1}, {Name: "last job after, ms"}}

func benchBurst(ctx context.Context, r *Run) Section {
	pace := map[string]time.Duration{}
	table := func(id string, jobs, repeats int, makers []maker) Table {
		var contenders []contender
		for _, m := range makers {
			contenders = append(contenders, contender{name: m.name, run: func() []float64 { return r.burstOnce(ctx, m, jobs, pace) }})
		}
		return Table{
			ID: id, Title: count(jobs) + " jobs due at once", Unit: "jobs/s, unless said otherwise",
			Columns: burstColumns, Rows: r.turns(repeats, contenders),
		}
	}
	small := table("burst", r.burst, r.slowRepeats, allPeers)
	section := Section{Title: "Burst", Tables: []Table{small}}
	var theirs []Sample
	for _, m := range others() {
		theirs = append(theirs, small.Rows.of(m.name).column(0))
	}
	for _, name := range []string{"Delayer", "Delayer, PopBatch"} {
		section.Targets = append(section.Targets, atLeast(
			fmt.Sprintf("Burst of %s, 8 consumers, jobs/s against the best other queue (%s)", count(r.burst), name),
			2, small.Rows.of(name).column(0).Over(best(theirs...))))
	}
	if r.bigBurst > 0 {
		quick := []string{"Delayer", "Delayer, PopBatch", "floor: raw scripts", "beanstalkd"}
		makers := slices.DeleteFunc(slices.Clone(allPeers), func(m maker) bool { return !slices.Contains(quick, m.name) })
		r.note("The others are left out of the burst of %s: pushing and draining it would take each a minute and more.", count(r.bigBurst))
		section.Tables = append(section.Tables, table("burst-big", r.bigBurst, 1, makers))
	}
	return section
}

// burstOnce makes the jobs due at once and returns jobs per second, and the lateness of the first and the
// last in ms. It learns how long a push takes per job.
func (r *Run) burstOnce(ctx context.Context, m maker, jobs int, pace map[string]time.Duration) (values []float64) {
	perJob, known := pace[m.name]
	if !known {
		perJob = 100 * time.Microsecond
	}
	for range 3 {
		margin := time.Duration(float64(jobs)*1.4*float64(perJob)) + 1500*time.Millisecond
		var took time.Duration
		values = r.onEmpty(ctx, r.opener(m), func(ctx context.Context, p Peer) []float64 {
			values, took = r.burstAt(ctx, p, m.name, jobs, margin)
			return values
		})
		perJob = took / time.Duration(jobs)
		pace[m.name] = perJob
		if values != nil {
			return values
		}
	}
	check(fmt.Errorf("pushing took so long that jobs fell due meanwhile"))
	return nil
}

// burstAt returns no values if pushing took too long.
func (r *Run) burstAt(ctx context.Context, p Peer, name string, jobs int, margin time.Duration) (values []float64, took time.Duration) {
	due := nextSecond(time.Now().Add(margin))
	if h, ok := p.(holder); ok {
		h.Hold(due)
	}
	started := time.Now()
	switch p.(type) {
	case *delayer, *floorPeer, *original:
		r.Redis.seed(0, jobs, 1, float64(due.Unix()), 0)
	default:
		crowd(32, jobs, func(i int) error { return p.Push(ctx, int64(i), body(int64(i)), due) })
	}
	took = time.Since(started)
	if time.Until(due) < 500*time.Millisecond {
		return nil, took
	}
	d := newDrain(jobs)
	p.Consume(ctx, consumers, d.take)
	d.wait(time.Until(due) + 20*time.Second + time.Duration(jobs)*5*time.Millisecond)
	if d.first.Before(due) {
		r.note("%s delivered %v early.", name, due.Sub(d.first).Round(time.Millisecond))
	}
	return []float64{
		float64(jobs) / d.last.Sub(due).Seconds(), milliseconds(d.first.Sub(due)), milliseconds(d.last.Sub(due)),
	}, took
}
