package main

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// contender is something to compare: run measures it once and returns one number per column.
type contender struct {
	name    string
	run     func() []float64
	repeats int // if not 0, the maximum number of repeats
}

// Rows has what was measured of each contender, in their order.
type Rows []Row

// Row has a contender's Samples, one per column.
type Row struct {
	Name  string
	Cells []Sample
}

// column returns nil if nothing was measured.
func (r Row) column(i int) Sample {
	if i >= len(r.Cells) {
		return nil
	}
	return r.Cells[i]
}

// of returns a row by its name; empty if there is none.
func (rs Rows) of(name string) Row {
	for _, r := range rs {
		if r.Name == name {
			return r
		}
	}
	return Row{}
}

// ratio returns a column of one row over that of another.
func (rs Rows) ratio(column int, name, over string) Sample {
	return rs.of(name).column(column).Over(rs.of(over).column(column))
}

// turns measures each contender that many times, in rounds that start with a different one each. A contender
// that fails is noted and skipped from then on; the run continues and fails at the end, unless only programs
// were missing.
func (r *Run) turns(repeats int, contenders []contender) (rows Rows) {
	if r.oursOnly {
		contenders = slices.DeleteFunc(slices.Clone(contenders), func(c contender) bool { return !strings.HasPrefix(c.name, "Delayer") })
	}
	cells, failed := make([][]Sample, len(contenders)), map[string]bool{}
	for round := range repeats {
		for i := range contenders {
			at := (i + round) % len(contenders)
			c := contenders[at]
			if failed[c.name] || c.repeats > 0 && round >= c.repeats {
				continue
			}
			var values []float64
			if err := attempt(func() { values = c.run() }); err != nil {
				failed[c.name] = true
				if errors.Is(err, exec.ErrNotFound) {
					r.note("%s is left out, as it is not installed here.", c.name)
				} else {
					r.note("%s failed: %v", c.name, err)
					r.failures = append(r.failures, fmt.Errorf("%s: %w", c.name, err))
				}
				continue
			}
			text := ""
			for v, value := range values {
				if len(cells[at]) == v {
					cells[at] = append(cells[at], nil)
				}
				cells[at][v] = append(cells[at][v], value)
				text += " " + number(value, 2)
			}
			progress("  %-40s %s", c.name, text)
		}
	}
	for i, c := range contenders {
		if cells[i] != nil {
			rows = append(rows, Row{c.name, cells[i]})
		}
	}
	return rows
}

// grid is a table whose columns are measured one after the other, each in its own turns, so that the numbers
// of a column are as close in time as possible.
type grid struct {
	columns []Column
	rows    Rows
}

// add adds a column. Rows that lack it stay empty there.
func (g *grid) add(c Column, rows Rows, from int) {
	g.columns = append(g.columns, c)
	for _, row := range rows {
		i := slices.IndexFunc(g.rows, func(r Row) bool { return r.Name == row.Name })
		if i < 0 {
			i = len(g.rows)
			g.rows = append(g.rows, Row{Name: row.Name})
		}
		for len(g.rows[i].Cells) < len(g.columns)-1 {
			g.rows[i].Cells = append(g.rows[i].Cells, nil)
		}
		g.rows[i].Cells = append(g.rows[i].Cells, row.column(from))
	}
}

// table returns the table with what was measured.
func (g *grid) table(id, title, unit, head string) Table {
	return Table{ID: id, Title: title, Unit: unit, Head: head, Columns: g.columns, Rows: g.rows}
}

// rate measures f, which does that many jobs, in jobs per second.
func rate(jobs int, f func()) float64 {
	started := time.Now()
	f()
	return float64(jobs) / time.Since(started).Seconds()
}

// cpuOf returns the CPU time of f in µs per job.
func cpuOf(jobs int, cpu func() time.Duration, f func()) float64 {
	before := cpu()
	f()
	return float64((cpu() - before).Nanoseconds()) / 1000 / float64(jobs)
}

// rateAndCPU measures f: jobs per second, and µs of Redis's CPU time per job.
func (r *Run) rateAndCPU(jobs int, f func()) []float64 {
	var perSecond float64
	used := cpuOf(jobs, r.Redis.cpu, func() { perSecond = rate(jobs, f) })
	return []float64{perSecond, used}
}

// usageColumns are the columns of usage.
var usageColumns = []Column{
	{Name: "Redis, ms of CPU per second", Digits: 2}, {Name: "process, ms of CPU per second", Digits: 2}, {Name: "commands per second", Digits: 1},
}

// usage returns the server's and our CPU time in ms per second while f runs, and for users of our Redis
// its commands per second, including those in scripts.
func (r *Run) usage(p Peer, f func()) []float64 {
	commands, before, own, started := r.Redis.commands(), r.serverCPU(p), ownCPU(), time.Now()
	f()
	took := time.Since(started).Seconds()
	own = ownCPU() - own
	used := []float64{milliseconds(r.serverCPU(p)-before) / took, milliseconds(own) / took}
	if _, apart := p.(ownServer); apart {
		return used
	}
	return append(used, max(r.Redis.commands()-commands-3, 0)/took) // without the commands of this function
}
