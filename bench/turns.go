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
	run     func() ([]float64, error)
	repeats int // if not 0, the maximum number of repeats
}

// outcome has a contender's Samples, one per column.
type outcome []Sample

// column returns nil if nothing was measured.
func (o outcome) column(i int) Sample {
	if i >= len(o) {
		return nil
	}
	return o[i]
}

// turns measures each contender that many times, in rounds that start with a different one each. A contender
// that fails is noted and skipped from then on; the run continues and fails at the end, unless only programs
// were missing.
func (r *Run) turns(repeats int, contenders []contender) map[string]outcome {
	if r.oursOnly {
		contenders = slices.DeleteFunc(slices.Clone(contenders), func(c contender) bool { return !strings.HasPrefix(c.name, "Delayer") })
	}
	results := map[string]outcome{}
	failed := map[string]bool{}
	for round := range repeats {
		for i := range contenders {
			c := contenders[(i+round)%len(contenders)]
			if failed[c.name] || c.repeats > 0 && round >= c.repeats {
				continue
			}
			values, err := c.run()
			if err != nil {
				failed[c.name] = true
				if errors.Is(err, exec.ErrNotFound) {
					r.note("%s is left out, as it is not installed here.", c.name)
				} else {
					r.note("%s failed: %v", c.name, err)
					r.failures = append(r.failures, fmt.Errorf("%s: %w", c.name, err))
				}
				continue
			}
			if results[c.name] == nil {
				results[c.name] = make(outcome, len(values))
			}
			for v, value := range values {
				results[c.name][v] = append(results[c.name][v], value)
			}
			progress("  %-40s %s", c.name, list(values))
		}
	}
	return results
}

func list(values []float64) string {
	text := ""
	for _, v := range values {
		text += fmt.Sprintf(" %s", number(v, 2))
	}
	return text
}

// rows converts the outcomes to rows in the contenders' order.
func rows(contenders []contender, results map[string]outcome) []Row {
	var list []Row
	for _, c := range contenders {
		if results[c.name] != nil {
			list = append(list, Row{c.name, results[c.name]})
		}
	}
	return list
}

// grid is a table whose columns are measured one after the other, each in its own turns, so that the numbers
// of a column are as close in time as possible.
type grid struct {
	columns []Column
	rows    []Row
}

// add measures a column with one number per contender.
func (g *grid) add(r *Run, c Column, repeats int, contenders []contender) {
	progress("  %s", c.Name)
	results := r.turns(repeats, contenders)
	for _, of := range contenders {
		i := slices.IndexFunc(g.rows, func(row Row) bool { return row.Name == of.name })
		if i < 0 {
			i = len(g.rows)
			g.rows = append(g.rows, Row{Name: of.name})
		}
		// Columns that lack the contender stay empty.
		cells := append(g.rows[i].Cells, make([]Sample, len(g.columns)-len(g.rows[i].Cells))...)
		g.rows[i].Cells = append(cells, results[of.name].column(0))
	}
	g.columns = append(g.columns, c)
}

// table adds the measured rows to the table.
func (g *grid) table(t Table) Table {
	t.Columns = g.columns
	for _, row := range g.rows {
		if slices.ContainsFunc(row.Cells, func(s Sample) bool { return len(s) > 0 }) {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// ratio divides one row by another, in the last column.
func (g *grid) ratio(name, over string) Sample {
	last := func(name string) Sample {
		for _, row := range g.rows {
			if row.Name == name && len(row.Cells) == len(g.columns) {
				return row.Cells[len(row.Cells)-1]
			}
		}
		return nil
	}
	return last(name).Over(last(over))
}

// rate measures f, which does that many jobs, in jobs per second.
func rate(jobs int, f func() error) (float64, error) {
	started := time.Now()
	err := f()
	return float64(jobs) / time.Since(started).Seconds(), err
}

// one returns a single number for a contender.
func one(value float64, err error) ([]float64, error) { return []float64{value}, err }
