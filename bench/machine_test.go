package main

import (
	"errors"
	"testing"
	"time"

	"github.com/shirou/gopsutil/v4/load"
)

// A run begins when the load is low, or unknown, and not at all if it stays high.
func TestAwaitQuiet(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		loads   []float64 // the last one stays
		unknown bool
		asked   int
		refused bool
	}{
		"quiet":      {loads: []float64{0.49}, asked: 1},
		"soon quiet": {loads: []float64{3, 0.5, 0.4}, asked: 3},
		"unknown":    {loads: []float64{3}, unknown: true, asked: 1},
		"never":      {loads: []float64{3}, refused: true},
	} {
		asked := 0
		err := awaitQuiet(func() (*load.AvgStat, error) {
			asked++
			if test.unknown {
				return nil, errors.New("unknown")
			}
			return &load.AvgStat{Load1: test.loads[min(asked, len(test.loads))-1]}, nil
		}, time.Microsecond, 20*time.Millisecond)
		if (err != nil) != test.refused || test.asked > 0 && asked != test.asked {
			t.Errorf("%s: %v after %d looks", name, err, asked)
		}
	}
}
