package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
)

// reader reads a text, or one in base64.
type reader func(at pointer, raw json.RawMessage) (string, error)

// twins are a field, and its twin of the same in base64. Only one of the two may be given.
func (f fields) twins(name string, set func(at pointer, raw json.RawMessage, read reader) error) {
	f[name] = field{set: func(at pointer, raw json.RawMessage) error { return set(at, raw, readText) }}
	f[name+"_base64"] = field{set: func(at pointer, raw json.RawMessage) error { return set(at, raw, readBase64) }}
}

// text is twins of any bytes, at least one and at most so many (0: any number).
func (f fields) text(name string, into *optional[string], most int) {
	f.twins(name, func(at pointer, raw json.RawMessage, read reader) error {
		if into.given {
			return at.problem("it is given in both forms: want text, or base64")
		}
		value, err := read(at, raw)
		if err != nil {
			return err
		}
		into.set(value)
		return checkText(at, value, most)
	})
}

func checkText(at pointer, value string, most int) error {
	switch {
	case value == "":
		return at.problem("it is empty")
	case most > 0 && len(value) > most:
		return at.problem("it has %d bytes: want %d at most", len(value), most)
	}
	return nil
}

// texts is twins of 1 to count texts.
func (f fields) texts(name string, into *optional[[]string], count, most int) {
	f.twins(name, func(at pointer, raw json.RawMessage, read reader) error {
		if into.given {
			return at.problem("it is given in both forms: want texts, or base64")
		}
		elements, err := elements(at, raw, count)
		if err != nil {
			return err
		}
		values, seen := make([]string, len(elements)), map[string]bool{}
		for i, element := range elements {
			at := at.at(i)
			value, err := read(at, element)
			if err == nil {
				err = checkText(at, value, most)
			}
			if err == nil && seen[value] {
				err = at.problem("it is there twice")
			}
			if err != nil {
				return err
			}
			values[i], seen[value] = value, true
		}
		into.set(values)
		return nil
	})
}

// line is a field of text only, which may be empty.
func (f fields) line(name string, into *string) {
	f[name] = field{set: func(at pointer, raw json.RawMessage) (err error) {
		*into, err = readText(at, raw)
		return err
	}}
}

func readText(at pointer, raw json.RawMessage) (text string, err error) {
	if raw[0] != '"' || json.Unmarshal(raw, &text) != nil {
		return "", at.problem("want a text")
	}
	if hasLoneSurrogate(raw) {
		return "", at.problem(`it has a \ud800 to \udfff that is no half of a pair: what is no text goes as base64`)
	}
	return text, nil
}

// escapes are the escaped characters of a JSON text, with both halves of a pair.
var escapes = regexp.MustCompile(`(?i)\\([^u]|u([^d]...|d[0-7]..|d[89ab]..\\ud[c-f]..))`)

// hasLoneSurrogate reports whether a JSON text has an escaped half of a character, which
// encoding/json would replace.
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
