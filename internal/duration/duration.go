// Package duration parses durations and rates, and formats them so that they can be typed in again: Parse and Format, ParseRate
// and Rate.
package duration

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var (
	seconds = regexp.MustCompile(`^[-+]?(\d+\.?\d*|\.\d+)$`)
	days    = regexp.MustCompile(`^([-+]?(?:\d+\.?\d*|\.\d+))d`)
)

// Parse reads a number of seconds, as used by the original's clients, or numbers with units: ms, s, m, h or
// d. Several can be combined (1h30m, 1d12h), days first. Exponents are not accepted. The result is rounded up to milliseconds, in which
// Redis's clock is read: a shorter one would look like a Go number without its unit.
func Parse(text string) (time.Duration, error) {
	if seconds.MatchString(text) {
		text += "s"
	}
	if found := days.FindStringSubmatch(text); found != nil {
		n, _ := strconv.ParseFloat(found[1], 64)
		text = strconv.FormatFloat(n*24, 'f', -1, 64) + "h" + text[len(found[0]):]
	}
	d, err := time.ParseDuration(text)
	if part := d % time.Millisecond; part > 0 && d < math.MaxInt64-time.Millisecond {
		d += time.Millisecond - part
	}
	return d, err
}

const day = 24 * time.Hour

// Format formats a duration for Parse, without units that are zero, and in days from two on: 7d, 2d12h, 24h, 1h30m, 90s as 1m30s,
// 250ms.
func Format(d time.Duration) string {
	text := ""
	if days := d / day; days < -1 || days > 1 {
		text = strconv.Itoa(int(days)) + "d"
		if d = (d - days*day).Abs(); d == 0 {
			return text
		}
	}
	rest := d.String()
	if strings.HasSuffix(rest, "m0s") {
		rest = strings.TrimSuffix(rest, "0s")
	}
	if strings.HasSuffix(rest, "h0m") {
		rest = strings.TrimSuffix(rest, "0m")
	}
	return text + rest
}

// Bound is Format for the end of a range, the longest of which is 100 years.
func Bound(d time.Duration) string {
	if d == 100*365*day {
		return "100 years"
	}
	return Format(d)
}
