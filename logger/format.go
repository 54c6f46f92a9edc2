package logger

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	topic          string   // of the jobs
	ids            [][]byte // nil: it is not about jobs
}

// appendText appends the message as the original writes it.
func (e entry) appendText(b []byte) []byte {
	b = append(b, e.message...)
	if e.topic != "" {
		b = append(append(b, ", Topic: "...), e.topic...)
	}
	if e.ids == nil {
		return b
	}
	b = append(b, ", IDs: ["...)
	for i, id := range e.ids {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, id...)
	}
	return append(b, ']')
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
	f.text = e.appendText(f.text[:0])
	writeEscaped(b, f.text)
	b.WriteByte('\n')
}

func (f *format) writeJSON(now time.Time, e entry) {
	object := struct {
		Time        string   `json:"time"`
		Level       string   `json:"level"`
		Message     string   `json:"message"`
		Topic       string   `json:"topic,omitempty"`
		TopicBase64 []byte   `json:"topic_base64,omitempty"`
		IDs         []string `json:"ids,omitempty"`
		IDsBase64   [][]byte `json:"ids_base64,omitempty"`
	}{Time: now.Format("2006-01-02T15:04:05.000Z07:00"), Level: e.level, Message: e.message}
	if utf8.ValidString(e.topic) {
		object.Topic = e.topic
	} else {
		object.TopicBase64 = []byte(e.topic)
	}
	if ids, ok := asText(e.ids); ok {
		object.IDs = ids
	} else {
		object.IDsBase64 = e.ids
	}
	encoder := json.NewEncoder(&f.buffer)
	encoder.SetEscapeHTML(false) // a log is no web page: <topic> stays readable
	encoder.Encode(object)
}

// asText fails when one of the IDs is no UTF-8.
func asText(ids [][]byte) (text []string, ok bool) {
	text = make([]string, len(ids))
	for i, id := range ids {
		if !utf8.Valid(id) {
			return nil, false
		}
		text[i] = string(id)
	}
	return text, true
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
