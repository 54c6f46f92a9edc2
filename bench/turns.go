package main

import (
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// contender is one of those that are compared: run measures it once. It gives
// one number for each of the contender's columns.
type contender struct {
	name    string
	run     func() ([]float64, error)
	repeats int // if not 0, no more than that
}

// outcome is, of one contender, a Sample a column.
type outcome []Sample

// column is nil where nothing was measured.
func (o outcome) column(i int) Sample {
	if i >= len(o) {
		return nil
	}
	return o[i]
}

// turns measures each contender so many times, in turns: a round of all, then
// the next, beginning with another one. One that fails is noted and not asked again; the run
// goes on, and fails in the end, unless all that it lacked was a program that is not installed.
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

// rows makes a table's rows of the outcomes, in the contenders' order.
func rows(contenders []contender, results map[string]outcome) []Row {
	var list []Row
	for _, c := range contenders {
		if results[c.name] != nil {
			list = append(list, Row{c.name, results[c.name]})
		}
	}
	return list
}

// grid is a table whose columns are measured one after the other, each in turns of
// its own: so what stands in one column was measured as close together as can be.
type grid struct {
	columns []Column
	rows    []Row
}

// add measures a column, in which each contender has one number.
func (g *grid) add(r *Run, c Column, repeats int, contenders []contender) {
	progress("  %s", c.Name)
	results := r.turns(repeats, contenders)
	for _, of := range contenders {
		i := slices.IndexFunc(g.rows, func(row Row) bool { return row.Name == of.name })
		if i < 0 {
			i = len(g.rows)
			g.rows = append(g.rows, Row{Name: of.name})
		}
		// A column that it was not in stays empty.
		cells := append(g.rows[i].Cells, make([]Sample, len(g.columns)-len(g.rows[i].Cells))...)
		g.rows[i].Cells = append(cells, results[of.name].column(0))
	}
	g.columns = append(g.columns, c)
}

// table fills in what was measured; who was never measured has no row.
func (g *grid) table(t Table) Table {
	t.Columns = g.columns
	for _, row := range g.rows {
		if slices.ContainsFunc(row.Cells, func(s Sample) bool { return len(s) > 0 }) {
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// ratio is one row over another, in the last column.
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

// rate times f, which does so many jobs, in jobs a second.
func rate(jobs int, f func() error) (float64, error) {
	started := time.Now()
	err := f()
	return float64(jobs) / time.Since(started).Seconds(), err
}

// one makes a contender's numbers of one.
func one(value float64, err error) ([]float64, error) { return []float64{value}, err }
