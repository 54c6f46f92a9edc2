package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
)

// reader reads a text, plain or in base64.
type reader func(at pointer, raw json.RawMessage) (string, error)

// twins are a field and its base64 form; only one of the two may be given.
func twins(name, forms string, read func(at pointer, raw json.RawMessage, decoded reader) (any, error)) Fields {
	in := func(form reader) Field {
		return Field{text: name, forms: forms, read: func(at pointer, raw json.RawMessage) (any, error) { return read(at, raw, form) }}
	}
	return Fields{name: in(readText), name + "_base64": in(readBase64)}
}

// text is twins for a string of 1 to most bytes (0: no maximum).
func text(name string, most int) Fields {
	return twins(name, "text", func(at pointer, raw json.RawMessage, decoded reader) (any, error) {
		return readSome(at, raw, decoded, most)
	})
}

func readSome(at pointer, raw json.RawMessage, decoded reader, most int) (string, error) {
	value, err := decoded(at, raw)
	switch {
	case err != nil:
	case value == "":
		err = at.problem("it is empty")
	case most > 0 && len(value) > most:
		err = at.problem("it has %d bytes: want at most %d", len(value), most)
	}
	return value, err
}

// texts is twins for a []string of 1 to count elements.
func texts(name string, count, most int) Fields {
	return twins(name, "texts", func(at pointer, raw json.RawMessage, decoded reader) (any, error) {
		seen := map[string]bool{}
		return each(at, raw, count, func(at pointer, raw json.RawMessage) (string, error) {
			value, err := readSome(at, raw, decoded, most)
			if err == nil && seen[value] {
				err = at.problem("it is given twice")
			}
			seen[value] = true
			return value, err
		})
	})
}

// line is a plain text field that may be empty.
func line(name string) Fields {
	return Fields{name: {read: func(at pointer, raw json.RawMessage) (any, error) { return readText(at, raw) }}}
}

func readText(at pointer, raw json.RawMessage) (text string, err error) {
	if raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return "", at.problem("want a text")
	}
	if hasLoneSurrogate(raw) {
		return "", at.problem(`it has an unpaired surrogate (\ud800 to \udfff): use base64 for what is not text`)
	}
	return text, nil
}

// escapes matches the escape sequences of a JSON text, surrogate pairs as one.
var escapes = regexp.MustCompile(`(?i)\\([^u]|u([^d]...|d[0-7]..|d[89ab]..\\ud[c-f]..))`)

// hasLoneSurrogate reports whether a JSON text has an unpaired surrogate escape, which encoding/json would
// replace.
func hasLoneSurrogate(raw json.RawMessage) bool {
	any := bytes.Contains(raw, []byte(`\ud`)) || bytes.Contains(raw, []byte(`\uD`))
	return any && bytes.IndexByte(escapes.ReplaceAll(raw, nil), '\\') >= 0
}

func readBase64(at pointer, raw json.RawMessage) (string, error) {
	text, err := readText(at, raw)
	if err != nil {
		return "", err
	}
	value, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return "", at.problem("want base64, with + and / and padded with =")
	}
	return string(value), nil
}
