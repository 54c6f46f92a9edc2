package api

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/store"
)

// Maximum sizes of IDs and topics in bytes.
const (
	maxID    = store.MaxID
	maxTopic = store.MaxTopic
)

// durations describes the accepted formats.
const durations = `seconds, or a text such as "250ms", "30m", "1h30m", "7d" or "1d12h"`

// join merges field sets.
func join(parts ...Fields) Fields {
	all := Fields{}
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all
}

// required is join for fields that must be given.
func required(parts ...Fields) Fields {
	all := join(parts...)
	for name, field := range all {
		field.Required = true
		all[name] = field
	}
	return all
}

// period is a field for a time.Duration from least to most.
func period(name string, least, most time.Duration) Fields {
	return Fields{name: {read: func(at pointer, raw json.RawMessage) (any, error) {
		text, err := durationText(at, raw)
		if err != nil {
			return nil, err
		}
		d, err := duration.Parse(text)
		if err != nil || d < least || d > most {
			return nil, at.problem("want %s, from %s to %s", durations, duration.Bound(least), duration.Bound(most))
		}
		return d, nil
	}}}
}

// durationText returns a duration's text; numbers of seconds are written without an exponent.
func durationText(at pointer, raw json.RawMessage) (string, error) {
	if raw[0] == '"' {
		return readText(at, raw)
	}
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return "", nil // not a duration
	}
	return strconv.FormatFloat(seconds, 'f', -1, 64), nil
}

// want is a field read by parse; if that fails, the problem says what is wanted.
func want(name string, parse func(raw json.RawMessage) (value any, ok bool), wanted string, args ...any) Fields {
	return Fields{name: {read: func(at pointer, raw json.RawMessage) (any, error) {
		value, ok := parse(raw)
		if !ok {
			return nil, at.problem("want "+wanted, args...)
		}
		return value, nil
	}}}
}

// timestamp is a field for a time.Time.
func timestamp(name string) Fields {
	return want(name, func(raw json.RawMessage) (any, bool) {
		text, _ := readText("", raw)
		return readTime(text)
	}, "%s", times)
}

// times describes the accepted times.
var times = fmt.Sprintf(`a time as in RFC 3339, such as "2027-01-31T08:30:00Z", within %s from now`, duration.Bound(client.MaxDelay))

func readTime(text string) (any, bool) {
	t, err := time.Parse(time.RFC3339, text)
	return t, err == nil && !t.IsZero() && time.Until(t) <= client.MaxDelay
}

// integer is a field for an int64 from least to most.
func integer(name string, least, most int64) Fields {
	return want(name, func(raw json.RawMessage) (any, bool) {
		n, ok := wholeNumber(string(raw))
		return n, ok && n >= least && n <= most
	}, "a whole number from %d to %d", least, most)
}

// number is a field for a float64 from least to most.
func number(name string, least, most float64, wanted string) Fields {
	return want(name, func(raw json.RawMessage) (any, bool) {
		n, err := strconv.ParseFloat(string(raw), 64)
		return n, err == nil && n >= least && n <= most
	}, "%s", wanted)
}

// wholeNumber reads an integer. 10, 10.0 and 1e1 are equal: some languages write large numbers in these ways,
// with 53 bits of precision as usual in JSON.
func wholeNumber(text string) (int64, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64)
	return int64(f), err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53
}

// ignored are fields that are allowed but have no effect.
func ignored(names ...string) Fields {
	all := Fields{}
	for _, name := range names {
		all[name] = Field{read: func(pointer, json.RawMessage) (any, error) { return nil, nil }}
	}
	return all
}

// boolean is a field that is true or false.
func boolean(name string) Fields {
	return want(name, func(raw json.RawMessage) (any, bool) {
		text := string(raw)
		return text == "true", text == "true" || text == "false"
	}, "true or false")
}

// choice is a field with one of the given texts.
func choice(name string, texts ...string) Fields {
	return want(name, func(raw json.RawMessage) (any, bool) {
		text, _ := readText("", raw)
		return text, slices.Contains(texts, text)
	}, "%s", strings.Join(texts, ", "))
}

// list is a field with 1 to maxBatch objects, read as []values.
func list(name string, of Fields) Fields {
	return Fields{name: {Elements: of, read: func(at pointer, raw json.RawMessage) (any, error) {
		return each(at, raw, maxBatch, func(at pointer, raw json.RawMessage) (values, error) { return decodeObject(at, raw, of) })
	}}}
}

// headers is a field for a job's headers, read as a map[string]string.
var headers = Fields{"headers": {read: func(at pointer, raw json.RawMessage) (any, error) {
	all := map[string]string{}
	err := members(at, raw, func(name string, at pointer, raw json.RawMessage) (err error) {
		all[name], err = readText(at, raw)
		return err
	})
	if _, wrong := store.HeadersText(all); err == nil && wrong != "" {
		err = at.problem("%s", wrong)
	}
	return all, err
}}}

// each reads an array of 1 to most elements.
func each[T any](at pointer, raw json.RawMessage, most int, read func(pointer, json.RawMessage) (T, error)) ([]T, error) {
	var elements []json.RawMessage
	if json.Unmarshal(raw, &elements) != nil || len(elements) == 0 || len(elements) > most {
		return nil, at.problem("want an array of 1 to %d", most)
	}
	all := make([]T, len(elements))
	for i, element := range elements {
		var err error
		if all[i], err = read(at.at(i), element); err != nil {
			return nil, err
		}
	}
	return all, nil
}
