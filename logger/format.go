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

// format builds lines in a buffer that is used again for the next one.
type format struct {
	json   bool
	buffer bytes.Buffer
}

// line is a message's line, with a line break before it as well: see file.write.
// It is valid until the next call.
func (f *format) line(now time.Time, level, message string) []byte {
	if f.buffer.Cap() > maxKept {
		f.buffer = bytes.Buffer{}
	}
	f.buffer.Reset()
	f.buffer.WriteByte('\n')
	if f.json {
		f.writeJSON(now, level, message)
	} else {
		f.writeText(now, level, message)
	}
	return f.buffer.Bytes()
}

func (f *format) writeText(now time.Time, level, message string) {
	b := &f.buffer
	b.WriteByte('[')
	b.WriteString(level)
	b.WriteString("] ")
	b.Write(now.AppendFormat(b.AvailableBuffer(), "2006/01/02 15:04:05 "))
	writeEscaped(b, message)
	b.WriteByte('\n')
}

func (f *format) writeJSON(now time.Time, level, message string) {
	encoder := json.NewEncoder(&f.buffer)
	encoder.SetEscapeHTML(false) // a log is no web page: <topic> stays readable
	encoder.Encode(struct {
		Time    string `json:"time"`
		Level   string `json:"level"`
		Message string `json:"message"`
	}{now.Format("2006-01-02T15:04:05.000Z07:00"), level, message})
}

// writeEscaped writes the message as Info documents. One that needs no escaping,
// which is nearly every one, is looked through once and written in one piece.
func writeEscaped(b *bytes.Buffer, message string) {
	written := 0
	for i := 0; i < len(message); {
		if isPlain(message[i]) {
			i++
			continue
		}
		escape, size := escapeFor(message[i:])
		if escape != "" {
			b.WriteString(message[written:i])
			b.WriteString(escape)
			written = i + size
		}
		i += size
	}
	b.WriteString(message[written:])
}

func isPlain(c byte) bool { return c >= ' ' && c < utf8.RuneSelf && c != '\\' && c != 0x7f }

// escapeFor is what stands for the first character of s, which has so many
// bytes; empty when the character itself does.
func escapeFor(s string) (escape string, size int) {
	r, size := utf8.DecodeRuneInString(s)
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
func looksEscaped(s string) bool {
	if s == "" {
		return false
	}
	r, size := utf8.DecodeRuneInString(s)
	return strings.ContainsRune(`nrtxu\`, r) || isHidden(r, size)
}
