package api

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
)

// What IDs and topics may have, in bytes.
const (
	maxID    = 4 << 10
	maxTopic = 1 << 10
)

// durations says how durations are written.
const durations = `seconds, or a text such as "250ms", "30m", "1h30m" or "7d"`

// parseDuration reads one. (duration is also what a field for one is called.)
func parseDuration(text string) (time.Duration, error) { return duration.Parse(text) }

// inWords is a duration as people say it.
func inWords(d time.Duration) string {
	if d == client.MaxDelay {
		return "100 years"
	}
	return d.String()
}

// optional is a value that need not be given.
type optional[T any] struct {
	value T
	given bool
}

func (o *optional[T]) set(value T) { o.value, o.given = value, true }

// required is the problem if nothing is given.
func (o *optional[T]) required(at pointer) error {
	if !o.given {
		return at.problem("it is missing")
	}
	return nil
}

// duration is a field from least to most.
func (f fields) duration(name string, into *optional[time.Duration], least, most time.Duration) {
	f[name] = field{set: func(at pointer, raw json.RawMessage) error {
		text := string(raw)
		if raw[0] == '"' {
			var err error
			if text, err = readText(at, raw); err != nil {
				return err
			}
		}
		d, err := parseDuration(text)
		if err != nil || d < least || d > most {
			return at.problem("want %s, from %s to %s", durations, inWords(least), inWords(most))
		}
		into.set(d)
		return nil
	}}
}

// time is a field for a time, until most from now.
func (f fields) time(name string, into *optional[time.Time], most time.Duration) {
	f[name] = field{set: func(at pointer, raw json.RawMessage) error {
		text, err := readText(at, raw)
		var t time.Time
		if err == nil {
			t, err = time.Parse(time.RFC3339, text)
		}
		if err != nil || t.IsZero() || time.Until(t) > most {
			return at.problem(`want a time as in RFC 3339, such as "2027-01-31T08:30:00Z", within %s from now`, inWords(most))
		}
		into.set(t)
		return nil
	}}
}

// integer is a field from least to most.
func (f fields) integer(name string, into *optional[int64], least, most int64) {
	f[name] = field{set: func(at pointer, raw json.RawMessage) error {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		if err != nil || n < least || n > most {
			return at.problem("want a whole number from %d to %d", least, most)
		}
		into.set(n)
		return nil
	}}
}

// boolean is a field that is true or false.
func (f fields) boolean(name string, into *bool) {
	f[name] = field{set: func(at pointer, raw json.RawMessage) error {
		if string(raw) != "true" && string(raw) != "false" {
			return at.problem("want true or false")
		}
		*into = raw[0] == 't'
		return nil
	}}
}

// choice is a field with one of some values.
func (f fields) choice(name string, into *optional[string], values ...string) {
	f[name] = field{set: func(at pointer, raw json.RawMessage) error {
		text, err := readText(at, raw)
		if err != nil || !slices.Contains(values, text) {
			return at.problem("want %s", strings.Join(values, ", "))
		}
		into.set(text)
		return nil
	}}
}
