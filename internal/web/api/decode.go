package api

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/store"
)

// Fields are the fields that a client's JSON object may have, by name.
type Fields map[string]Field

// Field describes how a value is read.
type Field struct {
	read reader[any]
	// text is the field's name in plain text if there is also a base64 form, else empty.
	text string
	// Required fields must be given, in one of their forms.
	Required bool
	// Elements are the fields of each element of a list of objects, else nil.
	Elements Fields
}

// reader reads the next value of valid JSON. Its error is a problem with the value that was read last.
type reader[T any] func(*jsontext.Decoder) (T, error)

// values are an object's values. A value given as base64 is under the name of the plain text.
type values map[string]any

// get returns the field's value, or the zero value.
func get[T any](v values, name string) T {
	value, _ := v[name].(T)
	return value
}

// has reports whether any of the fields is given.
func (v values) has(names ...string) bool {
	for _, name := range names {
		if _, given := v[name]; given {
			return true
		}
	}
	return false
}

// decode reads a body. It rejects anything ambiguous: duplicate names, names in another case, and text that is not Unicode.
func decode(body []byte, known Fields) (values, error) {
	var valid jsontext.Value
	if err := json.Unmarshal(body, &valid); err != nil {
		return nil, notJSON(err)
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(valid))
	got, err := readObject(d, known)
	if wrong := (*problem)(nil); errors.As(err, &wrong) {
		wrong.Field = cmp.Or(wrong.Field, d.StackPointer())
	}
	return got, err
}

// notJSON returns the problem with a body that is not JSON, or that is ambiguous.
func notJSON(err error) error {
	wrong := (*jsontext.SyntacticError)(nil)
	errors.As(err, &wrong)
	why := wrong.Err.Error()
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return badRequest.problem("the body is not JSON: it is empty or incomplete")
	case errors.Is(err, jsontext.ErrDuplicateName):
		return badRequest.field(wrong.JSONPointer, "it is given twice")
	case strings.Contains(why, "UTF-8"):
		return badRequest.field(wrong.JSONPointer, "it is not UTF-8: put other bytes into base64 fields such as body_base64")
	case strings.Contains(strings.ToLower(why), `\ud`):
		return invalid.field(wrong.JSONPointer, `it has an unpaired surrogate (\ud800 to \udfff): use base64 for what is not text`)
	}
	return badRequest.field(wrong.JSONPointer, "the body is not JSON: %s, at byte %d", why, wrong.ByteOffset+1)
}

// readObject reads an object.
func readObject(d *jsontext.Decoder, known Fields) (values, error) {
	got := values{}
	err := readMembers(d, func(name string) (err error) {
		field := known[name]
		switch {
		case field.read == nil:
			return badRequest.problem("there is no such field here")
		case got.has(field.text):
			return invalid.problem("it is given in both forms: want one of the two")
		}
		got[cmp.Or(field.text, name)], err = field.read(d)
		return err
	})
	if err != nil {
		return nil, err
	}
	var missing []string
	for name, field := range known {
		if name = cmp.Or(field.text, name); field.Required && !got.has(name) {
			missing = append(missing, name)
		}
	}
	if missing != nil {
		return nil, invalid.field(d.StackPointer().AppendToken(slices.Min(missing)), "it is missing")
	}
	return got, nil
}

// readMembers reads an object, with one call of read for each member's value.
func readMembers(d *jsontext.Decoder, read func(name string) error) error {
	if _, is := next(d, "{"); !is {
		return badRequest.problem("want an object")
	}
	for d.PeekKind() != '}' {
		name, _ := next(d, `"`)
		if err := read(name); err != nil {
			return err
		}
	}
	d.ReadToken()
	return nil
}

// next reads a token and reports whether it is of one of the kinds, as in jsontext.Kind. 10.0 and 1e1 become 10: some languages write large
// numbers in these ways, with 53 bits of precision as usual in JSON.
func next(d *jsontext.Decoder, kinds string) (text string, is bool) {
	t, _ := d.ReadToken()
	text = t.String()
	if t.Kind() == '0' && strings.ContainsAny(text, ".eE") {
		if f := t.Float(); math.Abs(f) < 1<<53 {
			text = strconv.FormatFloat(f, 'f', -1, 64)
		}
	}
	return text, strings.IndexByte(kinds, byte(t.Kind())) >= 0
}

// Maximum sizes of IDs and topics in bytes.
const (
	maxID    = store.MaxID
	maxTopic = store.MaxTopic
)

// durations describes the accepted formats.
const durations = `seconds, or a duration such as 250ms, 30m, 1h30m, 7d or 1d12h`

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

// want is a field for a value of one of the kinds that parse can read. For others, the problem says what is wanted.
func want(name, kinds string, parse func(text string) (value any, ok bool), wanted string, args ...any) Fields {
	return Fields{name: {read: func(d *jsontext.Decoder) (any, error) {
		if text, is := next(d, kinds); is {
			if value, ok := parse(text); ok {
				return value, nil
			}
		}
		return nil, invalid.problem("want "+wanted, args...)
	}}}
}

// period is a field for a time.Duration from least to most.
func period(name string, least, most time.Duration) Fields {
	return want(name, `"0`, func(text string) (any, bool) {
		d, err := duration.Parse(text)
		return d, err == nil && d >= least && d <= most
	}, "%s, from %s to %s", durations, duration.Bound(least), duration.Bound(most))
}

// timestamp is a field for a time.Time.
func timestamp(name string) Fields {
	return want(name, `"`, readTime, "%s", times)
}

// times describes the accepted times.
var times = fmt.Sprintf(`a time as in RFC 3339, such as "2027-01-31T08:30:00Z", within %s from now`, duration.Bound(store.MaxDelay))

func readTime(text string) (any, bool) {
	t, err := time.Parse(time.RFC3339, text)
	return t, err == nil && !t.IsZero() && time.Until(t) <= store.MaxDelay
}

// integer is a field for an int64 from least to most.
func integer(name string, least, most int64) Fields {
	return want(name, "0", func(text string) (any, bool) {
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil && n >= least && n <= most
	}, "a whole number from %d to %d", least, most)
}

// number is a field for a float64 from least to most.
func number(name string, least, most float64, wanted string) Fields {
	return want(name, "0", func(text string) (any, bool) {
		n, err := strconv.ParseFloat(text, 64)
		return n, err == nil && n >= least && n <= most
	}, "%s", wanted)
}

// boolean is a field that is true or false.
func boolean(name string) Fields { return want(name, "tf", readBool, "true or false") }

// choice is a field with one of the given texts.
func choice(name string, texts ...string) Fields {
	return want(name, `"`, func(text string) (any, bool) { return text, slices.Contains(texts, text) }, "%s", strings.Join(texts, ", "))
}

// line is a plain text field that may be empty.
func line(name string) Fields {
	return want(name, `"`, func(text string) (any, bool) { return text, true }, "a text")
}

// ignored are fields that are allowed but have no effect.
func ignored(names ...string) Fields {
	all := Fields{}
	for _, name := range names {
		all[name] = Field{read: func(d *jsontext.Decoder) (any, error) { return nil, d.SkipValue() }}
	}
	return all
}

// list is a field with 1 to maxBatch objects, read as []values.
func list(name string, of Fields) Fields {
	return Fields{name: {Elements: of, read: func(d *jsontext.Decoder) (any, error) {
		return each(d, maxBatch, func(d *jsontext.Decoder) (values, error) { return readObject(d, of) })
	}}}
}

// headers is a field for a job's headers, read as a map[string]string.
var headers = Fields{"headers": {read: func(d *jsontext.Decoder) (any, error) {
	all := map[string]string{}
	err := readMembers(d, func(name string) (err error) {
		all[name], err = readText(d)
		return err
	})
	if _, wrong := store.HeadersText(all); err == nil && wrong != "" {
		err = invalid.problem("%s", wrong)
	}
	return all, err
}}}

// text is a field for a string of 1 to most bytes (0: no maximum), or its base64 form.
func text(name string, most int) Fields {
	return twins(name, most, func(d *jsontext.Decoder, one reader[string]) (any, error) { return one(d) })
}

// texts is a field for a []string of 1 to count different ones, or their base64 form.
func texts(name string, count, most int) Fields {
	return twins(name, most, func(d *jsontext.Decoder, one reader[string]) (any, error) {
		seen := map[string]bool{}
		return each(d, count, func(d *jsontext.Decoder) (string, error) {
			value, err := one(d)
			if err == nil && seen[value] {
				err = invalid.problem("it is given twice")
			}
			seen[value] = true
			return value, err
		})
	})
}

// twins are a field and its base64 form; only one of the two may be given. one reads a string of 1 to most bytes.
func twins(name string, most int, read func(d *jsontext.Decoder, one reader[string]) (any, error)) Fields {
	of := func(form reader[string]) Field {
		one := func(d *jsontext.Decoder) (string, error) {
			value, err := form(d)
			switch {
			case err != nil:
			case value == "":
				err = invalid.problem("it is empty")
			case most > 0 && len(value) > most:
				err = invalid.problem("it has %d bytes: want at most %d", len(value), most)
			}
			return value, err
		}
		return Field{text: name, read: func(d *jsontext.Decoder) (any, error) { return read(d, one) }}
	}
	return Fields{name: of(readText), name + "_base64": of(readBase64)}
}

func readText(d *jsontext.Decoder) (string, error) {
	text, is := next(d, `"`)
	if !is {
		return "", invalid.problem("want a text")
	}
	return text, nil
}

func readBase64(d *jsontext.Decoder) (string, error) {
	text, err := readText(d)
	if err != nil {
		return "", err
	}
	value, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return "", invalid.problem("want base64, with + and / and padded with =")
	}
	return string(value), nil
}

// each reads an array of 1 to most elements.
func each[T any](d *jsontext.Decoder, most int, read reader[T]) (all []T, err error) {
	_, is := next(d, "[")
	at := d.StackPointer()
	for is && d.PeekKind() != ']' && len(all) <= most {
		one, err := read(d)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	if len(all) == 0 || len(all) > most {
		return nil, invalid.field(at, "want an array of 1 to %d", most)
	}
	d.ReadToken()
	return all, nil
}
