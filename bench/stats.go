package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Sample has the results of a measurement's repeats, in order. An empty one was not measured.
type Sample []float64

// Median returns the middle value, for an even number the mean of the middle two, or NaN for an empty Sample.
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

// Spread returns the minimum and the maximum.
func (s Sample) Spread() (low, high float64) {
	if len(s) == 0 {
		return math.NaN(), math.NaN()
	}
	return slices.Min(s), slices.Max(s)
}

// Over divides each value by that of the same repeat in other, skipping repeats that either lacks.
func (s Sample) Over(other Sample) Sample {
	ratios := Sample{}
	for i := range min(len(s), len(other)) {
		if other[i] != 0 {
			ratios = append(ratios, s[i]/other[i])
		}
	}
	return ratios
}

// best returns for each repeat the maximum of the samples.
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

// String formats the median, and the spread if there is one, with that many decimals.
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

// number formats with thousands separators.
func number(v float64, digits int) string {
	return message.NewPrinter(language.English).Sprintf("%.*f", digits, v)
}

func count(n int) string { return number(float64(n), 0) }

// plural is "1 topic" or "8 topics".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return count(n) + " " + noun + "s"
}

// quantile returns the q quantile of the durations, which it sorts.
func quantile(durations []time.Duration, q float64) time.Duration {
	if len(durations) == 0 {
		return 0
	}
	slices.Sort(durations)
	rank := int(math.Ceil(q*float64(len(durations)))) - 1
	return durations[min(max(rank, 0), len(durations)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
