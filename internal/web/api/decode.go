package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Fields are the fields that a client's JSON object may have, by name.
type Fields map[string]Field

// Field describes how a value is read.
type Field struct {
	// read parses the value at that pointer. Its error is a problem.
	read func(at pointer, raw json.RawMessage) (any, error)
	// text is the field's name in plain text and forms what that form is called in messages, if there is also
	// a base64 form; both are empty if there is only one form.
	text, forms string
	// Required fields must be given, in one of their forms.
	Required bool
	// Elements are the fields of each element of a list of objects, else nil.
	Elements Fields
}

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

// pointer is a JSON pointer to a value in the body.
type pointer string

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func (p pointer) member(name string) pointer {
	return p + "/" + pointer(pointerEscapes.Replace(name))
}

func (p pointer) at(i int) pointer { return p + pointer(fmt.Sprint("/", i)) }

// problem returns a problem with the value at the pointer.
func (p pointer) problem(detail string, args ...any) error {
	return invalid.field(string(p), detail, args...)
}

// decode reads a body. Unlike encoding/json it rejects anything ambiguous: duplicate names, names in another
// case, and text that it would have to change.
func decode(body []byte, known Fields) (values, error) {
	if !utf8.Valid(body) {
		return nil, badRequest.problem("the body is not UTF-8: put other bytes into base64 fields such as body_base64")
	}
	if !json.Valid(body) {
		return nil, badRequest.problem("the body is not JSON: %s", syntax(body))
	}
	return decodeObject("", body, known)
}

// syntax describes a JSON syntax error and where it is.
func syntax(body []byte) string {
	if len(bytes.TrimSpace(body)) == 0 {
		return "it is empty"
	}
	var wrong *json.SyntaxError
	switch err := json.NewDecoder(bytes.NewReader(body)).Decode(new(json.RawMessage)); {
	case err == nil:
		return "want one object and nothing after it"
	case errors.As(err, &wrong):
		return fmt.Sprintf("%v, at byte %d", err, wrong.Offset)
	default:
		return "it ends too early"
	}
}

// decodeObject reads an object from valid JSON.
func decodeObject(at pointer, raw []byte, known Fields) (values, error) {
	got := values{}
	err := members(at, raw, func(name string, at pointer, raw json.RawMessage) (err error) {
		field := known[name]
		switch {
		case field.read == nil:
			return badRequest.field(string(at), "there is no such field here")
		case got.has(field.text):
			return at.problem("it is given in both forms: want %s, or base64", field.forms)
		}
		got[cmp.Or(field.text, name)], err = field.read(at, raw)
		return err
	})
	if err != nil {
		return nil, err
	}
	missing := "" // the first one by name
	for name, field := range known {
		if name = cmp.Or(field.text, name); field.Required && !got.has(name) && (missing == "" || name < missing) {
			missing = name
		}
	}
	if missing != "" {
		return nil, at.member(missing).problem("it is missing")
	}
	return got, nil
}

// members reads the members of an object in valid JSON. A name may be given once.
func members(at pointer, raw []byte, read func(name string, at pointer, raw json.RawMessage) error) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if first, _ := d.Token(); first != json.Delim('{') {
		return badRequest.field(string(at), "want an object")
	}
	seen := map[string]bool{}
	for d.More() {
		token, _ := d.Token()
		name, _ := token.(string)
		var raw json.RawMessage
		d.Decode(&raw)
		at := at.member(name)
		if seen[name] {
			return badRequest.field(string(at), "it is given twice")
		}
		seen[name] = true
		if err := read(name, at, raw); err != nil {
			return err
		}
	}
	return nil
}
