// Package duration parses durations and rates. Parse and ParseRate are its entry points.
package duration

import (
	"regexp"
	"strconv"
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
	if part := d % time.Millisecond; part > 0 {
		d += time.Millisecond - part
	}
	return d, err
}
