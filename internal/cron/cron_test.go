package cron

import (
	"slices"
	"testing"
	"time"
)

func TestNext(t *testing.T) {
	for _, c := range []struct{ spec, zone, after, want string }{
		{"@hourly", "UTC", "2026-01-31T23:59:59Z", "2026-02-01T00:00:00Z"},
		{"@daily", "UTC", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"@midnight", "Asia/Shanghai", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00+08:00"},
		{"@weekly", "UTC", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"@monthly", "UTC", "2026-01-31T00:00:00Z", "2026-02-01T00:00:00Z"},
		{"@yearly", "UTC", "2026-01-31T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"@annually", "UTC", "2026-01-31T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"@every 90s", "UTC", "2026-01-31T00:00:00.123Z", "2026-01-31T00:01:30.123Z"},
		{"@every 10ms", "UTC", "2026-01-31T00:00:00.123Z", "2026-01-31T00:00:00.133Z"},
		{"@every 87600h", "UTC", "2026-01-31T00:00:00Z", "2036-01-29T00:00:00Z"},
		{"@every 1d12h", "UTC", "2026-01-31T00:00:00Z", "2026-02-01T12:00:00Z"},
		{"5/20 8-18/5 * * *", "UTC", "2026-01-31T08:45:00Z", "2026-01-31T13:05:00Z"},
		{"0 0 L * *", "UTC", "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z"},
		{"0 0 LW * *", "UTC", "2026-01-31T00:00:00Z", "2026-02-27T00:00:00Z"}, // the 28th is a Saturday
		{"0 0 LW * *", "UTC", "2026-05-01T00:00:00Z", "2026-05-29T00:00:00Z"}, // the 31st is a Sunday
		{"0 0 15W * *", "UTC", "2026-02-01T00:00:00Z", "2026-02-16T00:00:00Z"},
		{"0 0 15w * *", "UTC", "2026-08-01T00:00:00Z", "2026-08-14T00:00:00Z"},
		{"0 0 1W * *", "UTC", "2026-07-31T00:00:00Z", "2026-08-03T00:00:00Z"}, // never moves to another month
		{"0 0 31W * *", "UTC", "2026-05-30T00:00:00Z", "2026-07-31T00:00:00Z"},
		{"0 0 * * 5#2", "UTC", "2026-02-01T00:00:00Z", "2026-02-13T00:00:00Z"},
		{"0 0 * * mon#1,7#5", "UTC", "2026-03-03T00:00:00Z", "2026-03-29T00:00:00Z"},
		{"0 0 * * 5L", "UTC", "2026-02-20T00:00:00Z", "2026-02-27T00:00:00Z"},
		{"0 0 13 * 5", "UTC", "2026-03-01T00:00:00Z", "2026-03-06T00:00:00Z"}, // either field
		{"0 0 ? * FRI", "UTC", "2026-03-01T00:00:00Z", "2026-03-06T00:00:00Z"},
		{"0 0 */10 * 5", "UTC", "2026-03-01T00:00:00Z", "2026-05-01T00:00:00Z"}, // both fields
		{"0 0 29 2 *", "UTC", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		{"0 0 * 2 1#5", "UTC", "2073-01-01T00:00:00Z", "2112-02-29T00:00:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T03:00:00+01:00", "2026-03-29T03:00:00+02:00"},
		{"*/30 2 * * *", "Europe/Berlin", "2026-03-28T03:00:00+01:00", "2026-03-30T02:00:00+02:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"},
		{"0,*/30 2 * * *", "Europe/Berlin", "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00"},
		{"*/30,0 2 * * *", "Europe/Berlin", "2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00"},
		{"0 0 13,*/10 * 5", "UTC", "2026-03-01T00:00:00Z", "2026-03-13T00:00:00Z"}, // both fields
		{"30 * * * *", "Europe/Berlin", "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"},
		{"0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00", "2018-11-04T01:00:00-02:00"},
		{"0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-31T00:00:00+14:00"}, // December 30 did not exist
	} {
		s, err := Parse(c.spec)
		if err != nil {
			t.Error(err)
			continue
		}
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		after, _ := time.Parse(time.RFC3339, c.after)
		if got := s.Next(after.In(zone)).Format("2006-01-02T15:04:05.999Z07:00"); got != c.want {
			t.Errorf("%s in %s after %s: %s, want %s", c.spec, c.zone, c.after, got, c.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for spec, want := range map[string]string{
		"":                  `"": it has 0 fields, want 5: minute, hour, day of the month, month, day of the week`,
		"* * * *":           `"* * * *": it has 4 fields, want 5: minute, hour, day of the month, month, day of the week`,
		"0 * * * * *":       `"0 * * * * *": it has 6 fields, want 5: minute, hour, day of the month, month, day of the week`,
		"@dayly":            `"@dayly": want @every and a duration, @hourly, @daily, @weekly, @monthly or @yearly`,
		"@every":            `"@every": want @every and a duration, @hourly, @daily, @weekly, @monthly or @yearly`,
		"@every 5x":         `"@every 5x", the duration, "5x" at character 8: want one such as 90s or 1h30m`,
		"@every 9ms":        `"@every 9ms", the duration, "9ms" at character 8: want 10ms at least, and 3650d at most`,
		"@every 87601h":     `"@every 87601h", the duration, "87601h" at character 8: want 10ms at least, and 3650d at most`,
		"60 * * * *":        `"60 * * * *", minute, "60" at character 1: want 0 to 59`,
		"0 9,24 * * *":      `"0 9,24 * * *", hour, "24" at character 5: want 0 to 23`,
		"0 17-9 * * *":      `"0 17-9 * * *", hour, "17-9" at character 3: the range ends before it begins: want two, such as 17-23,0-9`,
		"0 22-2/2 * * *":    `"0 22-2/2 * * *", hour, "22-2" at character 3: the range ends before it begins: want two, such as 22-23,0-2`,
		"0 0 28-3 * *":      `"0 0 28-3 * *", day of the month, "28-3" at character 5: the range ends before it begins: want two, such as 28-31,1-3`,
		"0 0 * nov-feb *":   `"0 0 * nov-feb *", month, "nov-feb" at character 7: the range ends before it begins: want two, such as nov-12,1-feb`,
		"0 0 * * fri-mon":   `"0 0 * * fri-mon", day of the week, "fri-mon" at character 9: the range ends before it begins: want two, such as fri-7,0-mon`,
		"0 0 * * Fri-Sun":   `"0 0 * * Fri-Sun", day of the week, "Fri-Sun" at character 9: the range ends before it begins: want two, such as Fri-7,0-Sun`,
		"0 0 * * sat-mon":   `"0 0 * * sat-mon", day of the week, "sat-mon" at character 9: the range ends before it begins: want two, such as sat-7,0-mon`,
		"0 0 * * 5-1":       `"0 0 * * 5-1", day of the week, "5-1" at character 9: the range ends before it begins: want two, such as 5-7,0-1`,
		"0 0 * * 7-2":       `"0 0 * * 7-2", day of the week, "7-2" at character 9: the range ends before it begins: want two, such as 7-7,0-2`,
		"*/0 * * * *":       `"*/0 * * * *", minute, "0" at character 3: want a step from 1 to 59`,
		"*/x * * * *":       `"*/x * * * *", minute, "x" at character 3: want a step from 1 to 59`,
		"? * * * *":         `"? * * * *", minute, "?" at character 1: want 0 to 59`,
		"+5 * * * *":        `"+5 * * * *", minute, "+5" at character 1: want 0 to 59`,
		"005 * * * *":       `"005 * * * *", minute, "005" at character 1: want 0 to 59`,
		", * * * *":         `", * * * *", minute, "" at character 1: want 0 to 59`,
		"0  0 * Maj *":      `"0  0 * Maj *", month, "Maj" at character 8: want 1 to 12, or jan to dec`,
		"0 0 * * 8":         `"0 0 * * 8", day of the week, "8" at character 9: want 0 to 7, or sun to sat, the last such as 5L, or the second such as 5#2`,
		"0 0 0W * *":        `"0 0 0W * *", day of the month, "0" at character 5: want 1 to 31`,
		"0 0 * * 5#6":       `"0 0 * * 5#6", day of the week, "6" at character 11: want 1 to 5 after #`,
		"0 0 * * 9#1":       `"0 0 * * 9#1", day of the week, "9" at character 9: want 0 to 7, or sun to sat`,
		"0 0 * * L":         `"0 0 * * L", day of the week, "L" at character 9: want a day before it, as in 5L`,
		"0 0 w * *":         `"0 0 w * *", day of the month, "w" at character 5: want a day before it, as in 5w`,
		"0 0 32 * *":        `"0 0 32 * *", day of the month, "32" at character 5: want 1 to 31, L, LW or a working day such as 15W`,
		"0 0 last * *":      `"0 0 last * *", day of the month, "last" at character 5: want 1 to 31, L, LW or a working day such as 15W`,
		"0 0 1-x * *":       `"0 0 1-x * *", day of the month, "x" at character 7: want 1 to 31`,
		"0 0 30 2 *":        `"0 0 30 2 *": there is no such day`,
		"0 0 31 4,6,9,11 ?": `"0 0 31 4,6,9,11 ?": there is no such day`,
	} {
		_, err := Parse(spec)
		if err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
}

func TestOccurrences(t *testing.T) {
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(d time.Duration) time.Time { return day.Add(d) }
	for _, c := range []struct {
		spec  string
		now   time.Duration
		few   int
		count int
		last  []time.Time
		next  time.Duration
	}{
		{"@daily", 0, 3, 1, []time.Time{day}, 24 * time.Hour},
		{"@daily", -time.Second, 3, 1, []time.Time{day}, 24 * time.Hour},
		{"@daily", 50 * time.Hour, 3, 3, []time.Time{day, at(24 * time.Hour), at(48 * time.Hour)}, 72 * time.Hour},
		{"* * * * *", 364*24*time.Hour + time.Second, 2, MostCounted, []time.Time{at(364*24*time.Hour - time.Minute), at(364 * 24 * time.Hour)}, 364*24*time.Hour + time.Minute},
		{"* * * 1 *", 180 * 24 * time.Hour, 2, MostCounted, []time.Time{at(31*24*time.Hour - 2*time.Minute), at(31*24*time.Hour - time.Minute)}, 365 * 24 * time.Hour},
		{"@every 100ms", 0, 2, 1, []time.Time{day}, 100 * time.Millisecond},
		{"@every 100ms", -time.Second, 2, 1, []time.Time{day}, 100 * time.Millisecond},
		{"@every 100ms", 199 * time.Millisecond, 2, 2, []time.Time{day, at(100 * time.Millisecond)}, 200 * time.Millisecond},
		{"@every 100ms", 200 * time.Millisecond, 2, 3, []time.Time{at(100 * time.Millisecond), at(200 * time.Millisecond)}, 300 * time.Millisecond},
		{"@every 100ms", 365 * 24 * time.Hour, 1, 315360001, []time.Time{at(365 * 24 * time.Hour)}, 365*24*time.Hour + 100*time.Millisecond},
	} {
		s, err := Parse(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		count, last, next := s.Occurrences(day, at(c.now), c.few)
		if count != c.count || !slices.Equal(last, c.last) || !next.Equal(at(c.next)) {
			t.Errorf("%s until %v: %d, %v, then %v; want %d, %v, then %v", c.spec, c.now, count, last, next, c.count, c.last, at(c.next))
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, spec := range []string{"*/5 1-3,7 LW jan 5#2", "@every 5m", "0 0 15W * 7L", "1,2,/3 - # ?/2 *"} {
		f.Add(spec)
	}
	after := time.Date(2026, 3, 28, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		if next := s.Next(after); !next.After(after) {
			t.Errorf("%q: after %v comes %v", text, after, next)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	zone, _ := time.LoadLocation("Europe/Berlin")
	for _, text := range []string{"* * * * *", "30 2 * * *", "0 0 29 2 *", "@every 1s"} {
		b.Run(text, func(b *testing.B) {
			s, _ := Parse(text)
			at := time.Date(2026, 1, 1, 0, 0, 0, 0, zone)
			for b.Loop() {
				s.Next(at)
			}
		})
	}
}
