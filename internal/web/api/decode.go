package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// input is a JSON object that a client sends, or a part of one.
type input interface {
	// fields are its fields, which are read into it.
	fields() fields
}

// fields are those of an object, by name.
type fields map[string]field

// field is where a value goes.
type field struct {
	// set reads the value at that pointer. Its error is a problem.
	set func(at pointer, raw json.RawMessage) error
	// element makes an element of a list of objects; nil: it is none.
	element func() input
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
func decode(body []byte, into input) error {
	if !utf8.Valid(body) {
		return badRequest.problem("the body is not UTF-8: other bytes go as base64, into fields such as body_base64")
	}
	if !json.Valid(body) {
		return badRequest.problem("the body is not JSON: %s", syntax(body))
	}
	return decodeObject("", body, into.fields())
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
func decodeObject(at pointer, raw []byte, into fields) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	if first, _ := d.Token(); first != json.Delim('{') {
		return badRequest.field(string(at), "want an object")
	}
	seen := map[string]bool{}
	for d.More() {
		token, _ := d.Token()
		name, _ := token.(string)
		var value json.RawMessage
		d.Decode(&value)
		f, known := into[name]
		switch {
		case !known:
			return badRequest.field(string(at.member(name)), "there is no such field here")
		case seen[name]:
			return badRequest.field(string(at.member(name)), "it is there twice")
		}
		seen[name] = true
		if err := f.set(at.member(name), value); err != nil {
			return err
		}
	}
	return nil
}

// list is a field with 1 to most objects.
func list[T any, R interface {
	*T
	input
}](into *[]T, most int) field {
	return field{
		set: func(at pointer, raw json.RawMessage) error {
			elements, err := elements(at, raw, most)
			if err != nil {
				return err
			}
			*into = make([]T, len(elements))
			for i, element := range elements {
				if err := decodeObject(at.at(i), element, R(&(*into)[i]).fields()); err != nil {
					return err
				}
			}
			return nil
		},
		element: func() input { return R(new(T)) },
	}
}

// elements divides an array.
func elements(at pointer, raw json.RawMessage, most int) ([]json.RawMessage, error) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 || len(list) > most {
		return nil, at.problem("want an array of 1 to %d", most)
	}
	return list, nil
}
