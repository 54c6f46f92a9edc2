package logger

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// maxKept is the largest buffer kept for the next line; a line with a thousand job IDs has 30 KB.
const maxKept = 1 << 20

// entry is the content of a line.
type entry struct {
	level, message string
	attrs          []slog.Attr // without groups
}

// format formats lines into a reused buffer.
type format struct {
	json   bool
	text   []byte // before escaping
	buffer bytes.Buffer
}

// line returns an entry's line with a line break before it as well: see file.write. It is valid until the
// next call.
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

// appendAttr formats topics and IDs like the original.
func appendAttr(b []byte, a slog.Attr) []byte {
	b = append(append(b, ", "...), cmp.Or(titles[a.Key], a.Key)...)
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

// titles are the keys that a text line writes in another way.
var titles = map[string]string{"topic": "Topic", "ids": "IDs"}

// listOf reports whether the value is a list of texts, which may be invalid UTF-8.
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
	encoder.SetEscapeHTML(false) // keeps <topic> readable
	err := encoder.Encode(value)
	if err == nil {
		f.buffer.Truncate(f.buffer.Len() - 1) // removes the line break
	}
	return err
}

// jsonMember returns an attribute for JSON, as base64 if it is not UTF-8.
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

// writeEscaped escapes the message as described at Info. The usual message needs no escaping and is written
// in one piece.
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

// escapeFor returns the escape for the first character of s, or "" if it needs none, and its size in bytes.
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

// isHidden reports whether a character could end a line or control a terminal, or is an invalid byte.
func isHidden(r rune, size int) bool {
	return r == utf8.RuneError && size == 1 || unicode.In(r, unicode.Cc, unicode.Zl, unicode.Zp)
}

// looksEscaped reports whether a backslash before s would look like part of an escape, because s continues
// like one or starts with something that will be escaped.
func looksEscaped(s []byte) bool {
	if len(s) == 0 {
		return false
	}
	r, size := utf8.DecodeRune(s)
	return strings.ContainsRune(`nrtxu\`, r) || isHidden(r, size)
}

// Handler is for slog.New. Records up to [slog.LevelInfo] become [info] lines of the access log, those from
// [slog.LevelWarn] [error] lines of the error log, and those between them, such as the end of an error,
// [info] lines of the error log. There is no debug level. The time is when the line is written.
//
// Attributes follow the message in the original's format,
//
//	message, Topic: topic, IDs: [id1,id2]
//
// for the keys "topic" and "ids"; other keys are written as they are. In JSON they are fields next to
// "message", with "_base64" after the key if the value is not UTF-8. Keys in groups are prefixed with the
// group's name and a dot.
func (l *Logger) Handler() slog.Handler { return handler{Logger: l} }

type handler struct {
	*Logger
	with  []slog.Attr
	group string // names, each followed by a dot
}

func (h handler) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (h handler) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, to := entry{level: info, message: r.Message, attrs: append(h.attrs[:0], h.with...)}, h.access
	r.Attrs(func(a slog.Attr) bool {
		e.attrs = flatten(e.attrs, h.group, a)
		return true
	})
	if r.Level > slog.LevelInfo {
		to = h.errors
	}
	if r.Level >= slog.LevelWarn {
		e.level = failed
	}
	h.write(to, h.console, e)
	clear(e.attrs)
	h.attrs = e.attrs
	return nil
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.with = slices.Clip(h.with)
	for _, a := range attrs {
		h.with = flatten(h.with, h.group, a)
	}
	return h
}

func (h handler) WithGroup(name string) slog.Handler {
	h.group += name + "."
	return h
}

// flatten appends an attribute, or those of a group.
func flatten(to []slog.Attr, group string, a slog.Attr) []slog.Attr {
	switch {
	case a.Value.Kind() == slog.KindGroup:
		if a.Key != "" {
			group += a.Key + "."
		}
		for _, member := range a.Value.Group() {
			to = flatten(to, group, member)
		}
	case !a.Equal(slog.Attr{}):
		a.Key = group + a.Key
		to = append(to, a)
	}
	return to
}
