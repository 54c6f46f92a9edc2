package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

var burstColumns = []Column{
	{Name: "jobs/s"}, {Name: "first job after, ms", Digits: 1}, {Name: "last job after, ms"}, {Name: "server, µs of CPU per job", Digits: 1},
}

func benchBurst(ctx context.Context, r *Run) Section {
	table := func(id string, jobs, repeats int, makers []maker) Table {
		var contenders []contender
		for _, m := range makers {
			contenders = append(contenders, contender{name: m.name, run: func() []float64 { return r.burstOnce(ctx, m, jobs) }})
		}
		return Table{
			ID: id, Title: count(jobs) + " jobs due at once", Unit: "jobs/s, unless said otherwise",
			Columns: burstColumns[:3], Rows: r.turns(repeats, contenders),
		}
	}
	small := table("burst", r.burst, r.slowRepeats, allPeers)
	section := Section{Title: "Burst", Tables: []Table{small}}
	var theirs []Sample
	for _, m := range others() {
		theirs = append(theirs, small.Rows.of(m.name).column(0))
	}
	for _, name := range []string{"Delayer", "Delayer, Fetch"} {
		section.Targets = append(section.Targets, atLeast(
			fmt.Sprintf("Burst of %s, 8 consumers, jobs/s against the best other queue (%s)", count(r.burst), name),
			2, small.Rows.of(name).column(0).Over(best(theirs...))))
	}
	if r.bigBurst > 0 {
		quick := []string{"Delayer", "Delayer, Fetch", "floor: raw scripts", "beanstalkd"}
		makers := slices.DeleteFunc(slices.Clone(allPeers), func(m maker) bool { return !slices.Contains(quick, m.name) })
		r.note("The others are left out of the burst of %s: pushing and draining it would take each a minute and more.", count(r.bigBurst))
		section.Tables = append(section.Tables, table("burst-big", r.bigBurst, 1, makers))
	}
	return section
}

// burstOnce makes the jobs due at once. It returns jobs per second, the lateness of the first and the last in ms, and the
// server's CPU time per job in µs.
func (r *Run) burstOnce(ctx context.Context, m maker, jobs int) (values []float64) {
	margin := 1500*time.Millisecond + time.Duration(jobs)*50*time.Microsecond // for pushing
	for range 4 {
		r.Redis.clear()
		values = on(ctx, m.open(r), func(ctx context.Context, p Peer) []float64 { return r.burstAt(ctx, p, m.name, jobs, margin) })
		if values != nil {
			return values
		}
		margin *= 2
	}
	check(errors.New("pushing took so long that jobs fell due meanwhile"))
	return nil
}

// burstAt returns no values if pushing took too long.
func (r *Run) burstAt(ctx context.Context, p Peer, name string, jobs int, margin time.Duration) []float64 {
	due := nextSecond(time.Now().Add(margin))
	if h, ok := p.(holder); ok {
		h.Hold(due)
	}
	switch p.(type) {
	case *delayer, *floorPeer, *original:
		r.Redis.seed(0, jobs, 1, float64(due.Unix()), 0)
	default:
		crowd(32, jobs, func(i int) error { return p.Push(ctx, int64(i), body(int64(i)), due) })
	}
	if time.Until(due) < 500*time.Millisecond {
		return nil
	}
	var came arrivals
	before := r.serverCPU(p)
	p.Consume(ctx, consumers, came.add)
	first, last := came.drain(jobs, time.Until(due)+20*time.Second+time.Duration(jobs)*5*time.Millisecond)
	if first.Before(due) {
		r.note("%s delivered %v early.", name, due.Sub(first).Round(time.Millisecond))
	}
	return []float64{
		float64(jobs) / last.Sub(due).Seconds(), milliseconds(first.Sub(due)), milliseconds(last.Sub(due)),
		float64((r.serverCPU(p) - before).Microseconds()) / float64(jobs),
	}
}
