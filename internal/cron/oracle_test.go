package cron

import (
	"flag"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

var everyMinute = flag.Bool("cron.all", false, "look at each minute of two years, not only at those around the changes of clocks")

var oracleZones = strings.Fields(`UTC Asia/Kolkata America/New_York Europe/London Europe/Berlin Europe/Dublin Australia/Lord_Howe
	Australia/Sydney Australia/Adelaide Pacific/Auckland Pacific/Chatham America/Havana America/Santiago America/Asuncion Asia/Beirut
	Africa/Cairo Africa/Casablanca Antarctica/Troll America/St_Johns Atlantic/Azores America/Nuuk Asia/Tehran`)

var oracleSpecs = strings.Split(`* * * * *|*/5 * * * *|*/7 * * * *|0 * * * *|30 * * * *|45 * * * *|0 0 * * *|30 0 * * *|0 1 * * *|30 1 * * *
59 1 * * *|0 2 * * *|15 2 * * *|30 2 * * *|0 3 * * *|0,30 2 * * *|0 2,3 * * *|15,45 1-3 * * *|0 */2 * * *|0 */3 * * *|*/15 2 * * *
* 1 * * *|*/10 0-3 * * *|30 2 * * 0|0 0 * * 0|0 0 1 * *|0 0 31 * *|30 1 28 2 *|0 12 * * 1-5|0 9-17 * * 1-5|0 0 1,15 * 1|0 0 */2 * 1
30 2 8-14 3 *|5 4 * * sun|0 0 * jan,jul *|59 23 * * *|0 23 * * *|1-59/2 2 * * *|0 0 13 * 5|23 0-20/2 * * *|1 0 25-31 3,10 7|0 */1 * * 0|0,*/30 1 * * *|*/30,0 1 * * *|30 2,*/12 * * *|0 0 13,*/10 * 5`, "|")

// oracle interprets a spec naively and tries every minute.
type oracle struct {
	minute, hour, day, month, weekday map[int]bool
	fixed, anyDay, anyWeekday         bool
}

func newOracle(spec string) (o oracle) {
	f := strings.Fields(spec)
	o.minute, o.hour, o.day = numbers(f[0], 0, 59), numbers(f[1], 0, 23), numbers(f[2], 1, 31)
	o.month, o.weekday = numbers(f[3], 1, 12), numbers(f[4], 0, 7)
	o.weekday[0] = o.weekday[0] || o.weekday[7]
	o.fixed = !strings.Contains(f[0]+f[1], "*")
	o.anyDay, o.anyWeekday = strings.Contains(f[2], "*"), strings.Contains(f[4], "*")
	return o
}

func numbers(field string, from, to int) map[int]bool {
	all := map[int]bool{}
	number := func(text string) int {
		if i := strings.Index("jan feb mar apr may jun jul", text); i >= 0 && len(text) == 3 {
			return i/4 + 1
		}
		n, _ := strconv.Atoi(text) // sun is 0
		return n
	}
	for _, item := range strings.Split(field, ",") {
		item, step, _ := strings.Cut(item, "/")
		first, last, isRange := strings.Cut(item, "-")
		for n := from; n <= to; n++ {
			every := max(number(step), 1)
			switch {
			case item == "*":
				all[n] = all[n] || (n-from)%every == 0
			case isRange:
				all[n] = all[n] || n >= number(first) && n <= number(last) && (n-number(first))%every == 0
			default:
				all[n] = all[n] || n == number(item)
			}
		}
	}
	return all
}

func (o oracle) has(clock time.Time) bool {
	day, weekday := o.day[clock.Day()], o.weekday[int(clock.Weekday())]
	ofDays := day && weekday || !o.anyDay && !o.anyWeekday && (day || weekday)
	return o.minute[clock.Minute()] && o.hour[clock.Hour()] && o.month[int(clock.Month())] && ofDays
}

// occurrences returns the occurrences from one whole minute until before another.
func (o oracle) occurrences(from, to time.Time) (all []time.Time) {
	const before = 24 * time.Hour // to know which times the clock has shown
	next := clock(from.Add(-before))
	for t := from.Add(-before); t.Before(to); t = t.Add(time.Minute) {
		shown := clock(t)
		is := o.has(shown)
		if o.fixed {
			is = is && !shown.Before(next) // a repeated local time counts once
			for skipped := next; skipped.Before(shown); skipped = skipped.Add(time.Minute) {
				is = is || o.has(skipped)
			}
		}
		if !shown.Before(next) {
			next = shown.Add(time.Minute)
		}
		if is && !t.Before(from) {
			all = append(all, t)
		}
	}
	return all
}

// windows returns the times to search: the days around each clock change, or all of two years.
func windows(zone *time.Location) (all [][2]time.Time) {
	const day = 24 * time.Hour
	from := time.Date(2022, 1, 1, 0, 0, 0, 0, zone)
	to := from.AddDate(2, 0, 0)
	if *everyMinute {
		return [][2]time.Time{{from, to}}
	}
	all = append(all, [2]time.Time{from, from.Add(day)})
	for _, end := from.ZoneBounds(); !end.IsZero() && end.Before(to); _, end = end.ZoneBounds() {
		all = append(all, [2]time.Time{end.Add(-day), end.Add(2 * day)})
	}
	return all
}

// someOf returns the zones, with -short every fourth.
func someOf(zones []string) (some []string) {
	for i, zone := range zones {
		if i%4 == 0 || !testing.Short() {
			some = append(some, zone)
		}
	}
	return some
}

// Next agrees with a slow and obvious search.
func TestNextAgainstAnOracle(t *testing.T) {
	for _, name := range someOf(oracleZones) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			zone, err := time.LoadLocation(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range oracleSpecs {
				for text := range strings.SplitSeq(text, "\n") {
					compare(t, text, zone)
				}
			}
		})
	}
}

func compare(t *testing.T, text string, zone *time.Location) {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	o := newOracle(text)
	for _, w := range windows(zone) {
		at := w[0].Add(-time.Second)
		for _, want := range o.occurrences(w[0], w[1]) {
			if at = s.Next(at); !at.Equal(want) {
				t.Errorf("%s: %v, want %v", text, at, want.In(zone))
				return
			}
		}
		if at = s.Next(at); at.Before(w[1]) {
			t.Errorf("%s: %v, want none until %v", text, at, w[1])
		}
	}
}
