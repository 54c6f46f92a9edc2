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

// Fields are those that a JSON object of a client's may have, by name.
type Fields map[string]Field

// Field is how a value is read.
type Field struct {
	// read reads the value at that pointer. Its error is a problem.
	read func(at pointer, raw json.RawMessage) (any, error)
	// text is the name of the same in plain text, and forms what there are then, beside base64; empty:
	// there is one form only.
	text, forms string
	// Elements are the fields of each element of a list of objects; nil: it is none.
	Elements Fields
}

// values are what an object says, by the names of its fields: those of the plain text, also of what came
// in base64.
type values map[string]any

// get is the field's value; its zero value if it is not given.
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

// require is the problem of the first of the fields that is not given, in the object at that pointer.
func (v values) require(at pointer, names ...string) error {
	for _, name := range names {
		if !v.has(name) {
			return at.member(name).problem("it is missing")
		}
	}
	return nil
}

// pointer is a JSON pointer: where in the body a value stands.
type pointer string

func (p pointer) member(name string) pointer {
	return p + "/" + pointer(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
}

func (p pointer) at(i int) pointer { return p + pointer(fmt.Sprint("/", i)) }

// problem is one with the value there.
func (p pointer) problem(detail string, args ...any) error {
	return invalid.field(string(p), detail, args...)
}

// decode reads a body. In contrast to encoding/json it takes nothing that is ambiguous: no name
// twice or in another case, and no text that it would have to change.
func decode(body []byte, known Fields) (values, error) {
	if !utf8.Valid(body) {
		return nil, badRequest.problem("the body is not UTF-8: other bytes go as base64, into fields such as body_base64")
	}
	if !json.Valid(body) {
		return nil, badRequest.problem("the body is not JSON: %s", syntax(body))
	}
	return decodeObject("", body, known)
}

// syntax says what is wrong with the JSON, and where.
func syntax(body []byte) string {
	if len(bytes.TrimSpace(body)) == 0 {
		return "it is empty"
	}
	var wrong *json.SyntaxError
	switch err := json.NewDecoder(bytes.NewReader(body)).Decode(new(json.RawMessage)); {
	case err == nil:
		return "want one object, and nothing behind it"
	case errors.As(err, &wrong):
		return fmt.Sprintf("%v, at byte %d", err, wrong.Offset)
	default:
		return "it ends too early"
	}
}

// decodeObject reads an object, which is valid JSON.
func decodeObject(at pointer, raw []byte, known Fields) (values, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if first, _ := d.Token(); first != json.Delim('{') {
		return nil, badRequest.field(string(at), "want an object")
	}
	got, seen := values{}, map[string]bool{}
	for d.More() {
		token, _ := d.Token()
		name, _ := token.(string)
		var raw json.RawMessage
		d.Decode(&raw)
		at, field := at.member(name), known[name]
		switch {
		case field.read == nil:
			return nil, badRequest.field(string(at), "there is no such field here")
		case seen[name]:
			return nil, badRequest.field(string(at), "it is there twice")
		case got.has(field.text):
			return nil, at.problem("it is given in both forms: want %s, or base64", field.forms)
		}
		seen[name] = true
		value, err := field.read(at, raw)
		if err != nil {
			return nil, err
		}
		got[cmp.Or(field.text, name)] = value
	}
	return got, nil
}
