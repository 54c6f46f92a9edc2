package main

import (
	"errors"
	"fmt"
	"os/exec"
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

// turns measures each contender so many times, in turns: a round of all, then
// the next, beginning with another one. One that fails is noted and not asked again; the run
// goes on, and fails in the end, unless all that it lacked was a program that is not installed.
func (r *Run) turns(repeats int, contenders []contender) map[string]outcome {
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

// rate times f, which does so many jobs, in jobs a second.
func rate(jobs int, f func() error) (float64, error) {
	started := time.Now()
	err := f()
	return float64(jobs) / time.Since(started).Seconds(), err
}

// one makes a contender's numbers of one.
func one(value float64, err error) ([]float64, error) { return []float64{value}, err }
