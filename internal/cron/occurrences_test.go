package cron

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// Occurrences finds the same times as calling Next repeatedly, also around clock changes, and counts as many up to MostCounted.
func TestOccurrencesAgainstSteps(t *testing.T) {
	specs := strings.FieldsFunc(strings.Join(oracleSpecs, "|"), func(r rune) bool { return r == '|' || r == '\n' })
	for _, name := range someOf(append(oracleZones, "Pacific/Apia", "America/Sao_Paulo", "America/Scoresbysund")) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, uint64(len(name))))
			for _, change := range changes(zone) {
				for range 3 {
					text := specs[random.IntN(len(specs))]
					s, err := Parse(text)
					if err != nil {
						t.Fatal(err)
					}
					first := s.Next(change.Add(-time.Duration(random.Int64N(int64(12 * 24 * time.Hour)))))
					now := change.Add(time.Duration(random.Int64N(int64(12 * 24 * time.Hour))))
					few := []int{1, 3, 100}[random.IntN(3)]
					count, last, next := s.Occurrences(first, now, few)
					wantCount, wantLast, wantNext := stepped(s, first, now, few)
					if count != wantCount || !slices.EqualFunc(last, wantLast, time.Time.Equal) || !next.Equal(wantNext) {
						t.Errorf("%s from %v until %v, %d: %d, %v, then %v; want %d, %v, then %v", text, first, now, few, count, last, next, wantCount, wantLast, wantNext)
					}
				}
			}
		})
	}
}

// changes returns times to test: the clock changes of some years, and one time of each year.
func changes(zone *time.Location) (all []time.Time) {
	for year := 2009; year < 2024; year += 2 {
		from := time.Date(year, 5, 1, 0, 0, 0, 0, zone)
		all = append(all, from)
		if start, end := from.ZoneBounds(); !start.IsZero() && !end.IsZero() {
			all = append(all, start, end)
		}
	}
	return append(all, time.Date(2011, 12, 31, 0, 0, 0, 0, zone)) // the day before did not exist in Samoa
}

func stepped(s *Spec, first, now time.Time, few int) (count int, last []time.Time, next time.Time) {
	for next = first; count == 0 || !next.After(now); next = s.Next(next) {
		count, last = count+1, append(last, next)
	}
	return min(count, MostCounted), last[max(len(last)-few, 0):], next
}

func BenchmarkOccurrencesOfAYear(b *testing.B) {
	zone, _ := time.LoadLocation("Europe/Berlin")
	for _, text := range []string{"* * * * *", "30 2 * * *", "0 0 29 2 *", "@every 1s"} {
		b.Run(text, func(b *testing.B) {
			s, _ := Parse(text)
			first := s.Next(time.Date(2026, 1, 1, 0, 0, 0, 0, zone))
			for b.Loop() {
				s.Occurrences(first, first.AddDate(1, 0, 0), 100)
			}
		})
	}
}
