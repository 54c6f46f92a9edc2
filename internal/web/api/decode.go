package api

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
