package logger

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxKept is the largest buffer that is kept for the next line: far above the
// 30 KB of a line with a thousand job IDs.
const maxKept = 1 << 20

// entry is what a line says.
type entry struct {
	level, message string
	attrs          []slog.Attr // none is a group
}

// format builds lines in buffers that are used again for the next one.
type format struct {
	json   bool
	text   []byte // not yet escaped
	buffer bytes.Buffer
}

// line is an entry's line, with a line break before it as well: see file.write.
// It is valid until the next call.
func (f *format) line(now time.Time, e entry) []byte {
	if f.buffer.Cap() > maxKept {
		f.text, f.buffer = nil, bytes.Buffer{}
	}
	f.buffer.Reset()
	f.buffer.WriteByte('\n')
	if f.json {
		f.writeJSON(now, e)
	} else {
		f.writeText(now, e)
	}
	return f.buffer.Bytes()
}

func (f *format) writeText(now time.Time, e entry) {
	b := &f.buffer
	b.WriteByte('[')
	b.WriteString(e.level)
	b.WriteString("] ")
	b.Write(now.AppendFormat(b.AvailableBuffer(), "2006/01/02 15:04:05 "))
	f.text = append(f.text[:0], e.message...)
	for _, a := range e.attrs {
		f.text = appendAttr(f.text, a)
	}
	writeEscaped(b, f.text)
	b.WriteByte('\n')
}

// appendAttr appends an attribute as the original writes topics and IDs.
func appendAttr(b []byte, a slog.Attr) []byte {
	b = append(append(b, ", "...), title(a.Key)...)
	b = append(b, ": "...)
	list, ok := listOf(a.Value)
	if !ok {
		return append(b, a.Value.Resolve().String()...)
	}
	b = append(b, '[')
	for i, item := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	return append(b, ']')
}

// title is a key as a line of text shows it.
func title(key string) string {
	switch key {
	case "topic":
		return "Topic"
	case "ids":
		return "IDs"
	case "partition":
		return "Partition"
	}
	return key
}

// listOf reports whether the value lists texts, each of which may be no UTF-8.
func listOf(v slog.Value) (list [][]byte, ok bool) {
	if v.Kind() != slog.KindLogValuer {
		return nil, false
	}
	l, ok := v.LogValuer().(interface{ Bytes() [][]byte })
	if ok {
		list = l.Bytes()
	}
	return list, ok
}

func (f *format) writeJSON(now time.Time, e entry) {
	f.writeMember('{', "time", now.Format("2006-01-02T15:04:05.000Z07:00"))
	f.writeMember(',', "level", e.level)
	f.writeMember(',', "message", e.message)
	for _, a := range e.attrs {
		key, value := jsonMember(a)
		f.writeMember(',', key, value)
	}
	f.buffer.WriteString("}\n")
}

func (f *format) writeMember(before byte, key string, value any) {
	f.buffer.WriteByte(before)
	f.encode(key)
	f.buffer.WriteByte(':')
	if f.encode(value) != nil {
		f.encode(fmt.Sprint(value))
	}
}

func (f *format) encode(value any) error {
	encoder := json.NewEncoder(&f.buffer)
	encoder.SetEscapeHTML(false) // a log is no web page: <topic> stays readable
	err := encoder.Encode(value)
	if err == nil {
		f.buffer.Truncate(f.buffer.Len() - 1) // a line break
	}
	return err
}

// jsonMember is an attribute in JSON: as base64 where it is no UTF-8.
func jsonMember(a slog.Attr) (key string, value any) {
	if list, ok := listOf(a.Value); ok {
		if slices.ContainsFunc(list, func(item []byte) bool { return !utf8.Valid(item) }) {
			return a.Key + "_base64", list
		}
		text := make([]string, len(list))
		for i, item := range list {
			text[i] = string(item)
		}
		return a.Key, text
	}
	value = a.Value.Resolve().Any()
	if err, ok := value.(error); ok {
		value = err.Error()
	}
	if text, ok := value.(string); ok && !utf8.ValidString(text) {
		return a.Key + "_base64", []byte(text)
	}
	return a.Key, value
}

// writeEscaped writes the message as Info documents. One that needs no escaping,
// which is nearly every one, is looked through once and written in one piece.
func writeEscaped(b *bytes.Buffer, message []byte) {
	written := 0
	for i := 0; i < len(message); {
		if isPlain(message[i]) {
			i++
			continue
		}
		escape, size := escapeFor(message[i:])
		if escape != "" {
			b.Write(message[written:i])
			b.WriteString(escape)
			written = i + size
		}
		i += size
	}
	b.Write(message[written:])
}

func isPlain(c byte) bool { return c >= ' ' && c < utf8.RuneSelf && c != '\\' && c != 0x7f }

// escapeFor is what stands for the first character of s, which has so many
// bytes; empty when the character itself does.
func escapeFor(s []byte) (escape string, size int) {
	r, size := utf8.DecodeRune(s)
	switch {
	case r == '\\' && looksEscaped(s[1:]):
		return `\\`, size
	case !isHidden(r, size):
		return "", size
	case r == '\n':
		return `\n`, size
	case r == '\r':
		return `\r`, size
	case r == '\t':
		return `\t`, size
	case size == 1:
		return fmt.Sprintf(`\x%02x`, s[0]), size
	}
	return fmt.Sprintf(`\u%04x`, r), size
}

// isHidden tells a character that could end a line or act on a terminal, or a
// byte that is none.
func isHidden(r rune, size int) bool {
	return r == utf8.RuneError && size == 1 || unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp)
}

// looksEscaped tells whether a backslash in front of s would be read as part of
// an escape: because s goes on like one, or begins with what will be escaped.
func looksEscaped(s []byte) bool {
	if len(s) == 0 {
		return false
	}
	r, size := utf8.DecodeRune(s)
	return strings.ContainsRune(`nrtxu\`, r) || isHidden(r, size)
}
