package api

import (
	"encoding/json"
	"math"
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
const durations = `seconds, or a text such as "250ms", "30m", "1h30m", "7d" or "1d12h"`

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
		text, err := durationText(at, raw)
		if err != nil {
			return err
		}
		d, err := duration.Parse(text)
		if err != nil || d < least || d > most {
			return at.problem("want %s, from %s to %s", durations, inWords(least), inWords(most))
		}
		into.set(d)
		return nil
	}}
}

// durationText is a duration's text, or its number of seconds as one without an exponent.
func durationText(at pointer, raw json.RawMessage) (string, error) {
	if raw[0] == '"' {
		return readText(at, raw)
	}
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return "", nil // it is none
	}
	return strconv.FormatFloat(seconds, 'f', -1, 64), nil
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
		n, ok := wholeNumber(string(raw))
		if !ok || n < least || n > most {
			return at.problem("want a whole number from %d to %d", least, most)
		}
		into.set(n)
		return nil
	}}
}

// wholeNumber reads a JSON number that is whole. 10, 10.0 and 1e1 are the same, and some languages
// write large numbers so; these have 53 bits, as elsewhere in JSON.
func wholeNumber(text string) (int64, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64)
	return int64(f), err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53
}

// pass makes fields that may be there, and mean nothing.
func (f fields) pass(names ...string) {
	for _, name := range names {
		f[name] = field{set: func(pointer, json.RawMessage) error { return nil }}
	}
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
