package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Sample is what the repeats of one measurement gave, in the order in which
// they ran. An empty one means not measured.
type Sample []float64

// Median is the middle value, of an even number of values the mean of the
// middle two; NaN if there is none.
func (s Sample) Median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Spread is the least and the greatest value.
func (s Sample) Spread() (low, high float64) {
	if len(s) == 0 {
		return math.NaN(), math.NaN()
	}
	return slices.Min(s), slices.Max(s)
}

// Over divides each value by that of the same repeat in other. Repeats that
// either lacks are left out.
func (s Sample) Over(other Sample) Sample {
	ratios := Sample{}
	for i := range min(len(s), len(other)) {
		if other[i] != 0 {
			ratios = append(ratios, s[i]/other[i])
		}
	}
	return ratios
}

// best is, repeat by repeat, the greatest value among the samples.
func best(samples ...Sample) Sample {
	var top Sample
	for _, s := range samples {
		for i, v := range s {
			if i == len(top) {
				top = append(top, v)
			}
			top[i] = max(top[i], v)
		}
	}
	return top
}

// String is the median, and behind it the spread if there is one, with so many
// digits after the point.
func (s Sample) String(digits int) string {
	if len(s) == 0 {
		return "–"
	}
	median := number(s.Median(), digits)
	low, high := s.Spread()
	from, to := number(low, digits), number(high, digits)
	if from == to {
		return median
	}
	return fmt.Sprintf("%s (%s–%s)", median, from, to)
}

// number has commas between thousands.
func number(v float64, digits int) string {
	return message.NewPrinter(language.English).Sprintf("%.*f", digits, v)
}

func count(n int) string { return number(float64(n), 0) }

// quantile is the value below which the share q of the durations lies, which
// it sorts.
func quantile(durations []time.Duration, q float64) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	slices.Sort(durations)
	rank := int(math.Ceil(q*float64(len(durations)))) - 1
	return durations[min(max(rank, 0), len(durations)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
