package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

func benchBurst(ctx context.Context, r *Run) (Section, error) {
	pace := map[string]time.Duration{} // total time of a push per job
	table := func(id string, jobs, repeats int, makers []maker) (Table, map[string]outcome) {
		title := count(jobs) + " jobs due at once"
		var contenders []contender
		for _, m := range makers {
			c := contender{name: m.name, run: func() ([]float64, error) { return r.burstOnce(ctx, m, jobs, pace) }}
			if m.slow && repeats > 1 {
				c.repeats = 1
				r.note("%s: 1 of %d repeats of %s, for the time they take.", c.name, repeats, title)
			}
			contenders = append(contenders, c)
		}
		results := r.turns(repeats, contenders)
		return Table{
			ID: id, Title: title, Unit: "jobs/s, unless said otherwise", Chart: bars, Drawn: 1,
			Columns: []Column{{Name: "jobs/s"}, {Name: "first job after, ms", Digits: 1}, {Name: "last job after, ms"}},
			Rows:    rows(contenders, results),
		}, results
	}
	small, results := table("burst", r.burst, r.slowRepeats, r.peers())
	section := Section{Title: "Burst", Tables: []Table{small}}

	var theirs []Sample
	for _, m := range r.others() {
		if !m.slow {
			theirs = append(theirs, results[m.name].column(0))
		}
	}
	for _, name := range []string{"Delayer", "Delayer, PopBatch"} {
		section.Targets = append(section.Targets, Target{
			Name:  fmt.Sprintf("Burst of %s, 8 consumers, jobs/s against the best other queue (%s)", count(r.burst), name),
			Limit: 2, Unit: "×", Got: results[name].column(0).Over(best(theirs...)),
		})
	}
	if r.bigBurst > 0 {
		quick := []string{"Delayer", "Delayer, PopBatch", "floor: raw scripts", "beanstalkd"}
		makers := slices.DeleteFunc(r.peers(), func(m maker) bool { return !slices.Contains(quick, m.name) })
		r.note("The others are left out of the burst of %s: pushing and draining it would take each a minute and more.", count(r.bigBurst))
		big, _ := table("burst-big", r.bigBurst, 1, makers)
		section.Tables = append(section.Tables, big)
	}
	return section, nil
}

// burstOnce makes the jobs due at once and returns jobs per second, and the lateness of the first and the
// last in ms.
func (r *Run) burstOnce(ctx context.Context, m maker, jobs int, pace map[string]time.Duration) ([]float64, error) {
	perJob, known := pace[m.name]
	if !known {
		perJob = 100 * time.Microsecond
	}
	for range 3 {
		margin := time.Duration(float64(jobs)*1.4*float64(perJob)) + 1500*time.Millisecond
		var took time.Duration
		values, err := r.onEmpty(ctx, r.opener(m), func(ctx context.Context, p Peer) (values []float64, err error) {
			values, took, err = r.burstAt(ctx, p, m.name, jobs, margin)
			return values, err
		})
		perJob = took / time.Duration(jobs)
		pace[m.name] = perJob
		if err != errTooLate {
			return values, err
		}
	}
	return nil, errTooLate
}

var errTooLate = fmt.Errorf("pushing took so long that jobs fell due meanwhile")

func (r *Run) burstAt(ctx context.Context, p Peer, name string, jobs int, margin time.Duration) (values []float64, took time.Duration, err error) {
	due := nextSecond(time.Now().Add(margin))
	if h, ok := p.(holder); ok {
		if err := h.Hold(due); err != nil {
			return nil, 0, err
		}
	}
	started := time.Now()
	switch p.(type) {
	case *delayer, *floorPeer, *original:
		err = r.Redis.seed(0, jobs, 1, float64(due.Unix()), 0)
	default:
		err = crowd(32, jobs, func(i int) error { return p.Push(ctx, int64(i), body(int64(i)), due) })
	}
	took = time.Since(started)
	if err != nil {
		return nil, took, err
	}
	if time.Until(due) < 500*time.Millisecond {
		return nil, took, errTooLate
	}

	d := newDrain(jobs)
	if err := p.Consume(ctx, consumers, d.take); err != nil {
		return nil, took, err
	}
	if err := d.wait(time.Until(due) + 20*time.Second + time.Duration(jobs)*5*time.Millisecond); err != nil {
		return nil, took, err
	}
	if d.first.Before(due) {
		r.note("%s delivered %v early.", name, due.Sub(d.first).Round(time.Millisecond))
	}
	return []float64{
		float64(jobs) / d.last.Sub(due).Seconds(), milliseconds(d.first.Sub(due)), milliseconds(d.last.Sub(due)),
	}, took, nil
}
