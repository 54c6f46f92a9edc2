package main

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestMedianAndSpread(t *testing.T) {
	for _, c := range []struct {
		sample            Sample
		median, low, high float64
	}{
		{Sample{3}, 3, 3, 3},
		{Sample{9, 1, 5}, 5, 1, 9},
		{Sample{4, 1, 3, 2}, 2.5, 1, 4},
	} {
		low, high := c.sample.Spread()
		if m := c.sample.Median(); m != c.median || low != c.low || high != c.high {
			t.Errorf("%v: median %v, spread %v–%v", c.sample, m, low, high)
		}
	}
	if m := (Sample{}).Median(); !math.IsNaN(m) {
		t.Errorf("median of nothing: %v", m)
	}
}

func TestMedianLeavesTheOrder(t *testing.T) {
	s := Sample{3, 1, 2}
	s.Median()
	if !slices.Equal(s, Sample{3, 1, 2}) {
		t.Errorf("now %v", s)
	}
}

func TestOverPairsRepeats(t *testing.T) {
	got := Sample{10, 9, 8}.Over(Sample{5, 3})
	if !slices.Equal(got, Sample{2, 3}) {
		t.Errorf("got %v", got)
	}
	if got := (Sample{1}).Over(nil); len(got) != 0 {
		t.Errorf("over nothing: %v", got)
	}
}

func TestBest(t *testing.T) {
	if got := best(Sample{1, 5}, nil, Sample{2, 3, 4}); !slices.Equal(got, Sample{2, 5, 4}) {
		t.Errorf("got %v", got)
	}
}

func TestSampleString(t *testing.T) {
	for _, c := range []struct {
		sample Sample
		digits int
		want   string
	}{
		{nil, 0, "–"},
		{Sample{1234567}, 0, "1,234,567"},
		{Sample{1, 2, 3}, 1, "2.0 (1.0–3.0)"},
		{Sample{1.001, 1.002}, 1, "1.0"},
		{Sample{-1234.5}, 1, "-1,234.5"},
		{Sample{999}, 0, "999"},
	} {
		if got := c.sample.String(c.digits); got != c.want {
			t.Errorf("%v: got %q, want %q", c.sample, got, c.want)
		}
	}
}

func TestQuantile(t *testing.T) {
	var d []time.Duration
	for n := 100; n >= 1; n-- {
		d = append(d, time.Duration(n))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 50, 0.99: 99, 1: 100} {
		if got := quantile(d, q); got != want {
			t.Errorf("quantile %v: got %v, want %v", q, got, want)
		}
	}
	if quantile(nil, 0.5) != 0 {
		t.Error("of nothing")
	}
}
