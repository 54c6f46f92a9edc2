package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/config"
)

// mostOfLog is the number of bytes read from the end of a log.
const mostOfLog = 256 << 10

// logParts returns the ends of the logs: of the configured files or, if they do not exist, of the files that a daemon of this
// user writes.
func logParts(d config.Delayer) (parts []part) {
	own := d
	ownPaths(&own)
	for _, log := range []struct {
		name  string
		paths []string
	}{
		{"access.log", []string{d.AccessLog, own.AccessLog}},
		{"error.log", []string{d.ErrorLog, own.ErrorLog}},
	} {
		end, err := logEnd(log.paths)
		p := part{name: "logs/" + log.name, err: err, known: log.paths}
		if err == nil {
			p.text = func(m *mask) string { return logText(m, end) }
		}
		parts = append(parts, p)
	}
	return parts
}

// logEnd returns the last whole lines of the first file that exists.
func logEnd(paths []string) (string, error) {
	paths = slices.DeleteFunc(slices.Clone(paths), func(path string) bool { return path == "" })
	if len(paths) == 0 {
		return "", errors.New("the daemon writes no such file")
	}
	path := paths[0]
	if i := slices.IndexFunc(paths, func(path string) bool { _, err := os.Stat(path); return err == nil }); i > 0 {
		path = paths[i]
	}
	if info, err := os.Stat(path); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s: want a regular file", path) // a pipe would block
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return "", err
	}
	from := max(size-mostOfLog, 0)
	text, err := io.ReadAll(io.NewSectionReader(f, from, mostOfLog))
	if from > 0 { // the first line is incomplete
		_, after, _ := strings.Cut(string(text), "\n")
		return after, err
	}
	return string(text), err
}

var logLine = regexp.MustCompile(`^(\[\w+\]) (\d{4}/\d\d/\d\d \d\d:\d\d:\d\d) (.*)$`)

// logText returns the lines of a log. A line that is not of Delayer's format is only counted, as it may be anything.
func logText(m *mask, log string) string {
	var b strings.Builder
	others := 0
	for line := range strings.Lines(log) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		switch parts := logLine.FindStringSubmatch(line); {
		case line == "":
		case m.bodies:
			b.WriteString(m.withoutSecrets(line) + "\n")
		case parts != nil:
			fmt.Fprintf(&b, "%s %s %s\n", parts[1], parts[2], m.text(parts[3]))
		default:
			if text := m.jsonLine(line); text != "" {
				b.WriteString(text + "\n")
			} else {
				others++
			}
		}
	}
	if others > 0 {
		fmt.Fprintf(&b, "(lines of another format, left out: %d)\n", others)
	}
	return b.String()
}

// jsonLine returns a line of a log in JSON with the members that may be shown; "" for any other line.
func (m *mask) jsonLine(line string) string {
	var l struct {
		Time      string `json:"time"`
		Level     string `json:"level"`
		Message   string `json:"message"`
		Topic     string `json:"topic,omitempty"`
		Partition *int   `json:"partition,omitempty"`
	}
	if json.Unmarshal([]byte(line), &l) != nil || !jsonTime.MatchString(l.Time) || !plainWord.MatchString(l.Level) {
		return ""
	}
	if l.Message = m.text(l.Message); l.Topic != "" && !m.known[l.Topic] {
		l.Topic = masked
	}
	text, _ := json.Marshal(l)
	return string(text)
}

var (
	jsonTime  = regexp.MustCompile(`^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$`)
	plainWord = regexp.MustCompile(`^[a-z]{1,10}$`)
)
