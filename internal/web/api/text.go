package api

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
)

// text is a field of any bytes, at least one and at most so many (0: any number), and its twin
// of the same in base64. Only one of the two may be given.
func (f fields) text(name string, into *optional[string], most int) {
	f[name] = field{set: func(at pointer, raw json.RawMessage) error {
		return setText(at, raw, readText, into, most)
	}}
	f[name+"_base64"] = field{set: func(at pointer, raw json.RawMessage) error {
		return setText(at, raw, readBase64, into, most)
	}}
}

func setText(at pointer, raw json.RawMessage, read func(pointer, json.RawMessage) (string, error), into *optional[string], most int) error {
	if into.given {
		return at.problem("it is given in both forms: want text, or base64")
	}
	value, err := read(at, raw)
	if err != nil {
		return err
	}
	into.set(value)
	return checkText(at, value, most)
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

// texts is a field of 1 to count texts, and its twin.
func (f fields) texts(name string, into *optional[[]string], count, most int) {
	for name, read := range map[string]func(pointer, json.RawMessage) (string, error){name: readText, name + "_base64": readBase64} {
		f[name] = field{set: func(at pointer, raw json.RawMessage) error {
			if into.given {
				return at.problem("it is given in both forms: want texts, or base64")
			}
			elements, err := elements(at, raw, count)
			if err != nil {
				return err
			}
			seen := map[string]bool{}
			values := make([]string, len(elements))
			for i, element := range elements {
				if values[i], err = read(at.at(i), element); err == nil {
					err = checkText(at.at(i), values[i], most)
				}
				if err == nil && seen[values[i]] {
					err = at.at(i).problem("it is there twice")
				}
				if err != nil {
					return err
				}
				seen[values[i]] = true
			}
			into.set(values)
			return nil
		}}
	}
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

// hasLoneSurrogate reports whether a JSON text has an escaped half of a character, which
// encoding/json would replace.
func hasLoneSurrogate(raw json.RawMessage) bool {
	for text := string(raw); ; {
		i := strings.IndexByte(text, '\\')
		if i < 0 {
			return false
		}
		first := escaped(text[i:])
		switch {
		case first < 0:
			text = text[i+2:]
		case !utf16.IsSurrogate(first):
			text = text[i+6:]
		case utf16.DecodeRune(first, escaped(text[i+6:])) == '\uFFFD':
			return true
		default:
			text = text[i+12:]
		}
	}
}

// escaped is the \uXXXX that the text begins with; -1 if it doesn't.
func escaped(text string) rune {
	if len(text) < 6 || !strings.HasPrefix(text, `\u`) {
		return -1
	}
	n, err := strconv.ParseUint(text[2:6], 16, 16)
	if err != nil {
		return -1
	}
	return rune(n)
}

func readBase64(at pointer, raw json.RawMessage) (string, error) {
	text, err := readText(at, raw)
	if err != nil {
		return "", err
	}
	bytes, err := base64.StdEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return "", at.problem("want base64, with + and / and padded with =")
	}
	return string(bytes), nil
}
