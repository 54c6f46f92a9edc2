package redistest

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Log is a log that can be read while it is written.
type Log struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *Log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// Logger returns a logger that writes to the log.
func (l *Log) Logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// Lines returns the lines that contain all parts.
func (l *Log) Lines(parts ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := slices.Collect(strings.Lines(l.text.String()))
	return slices.DeleteFunc(lines, func(line string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
	})
}

// Expect checks how many lines contain all parts.
func (l *Log) Expect(tb testing.TB, n int, parts ...string) {
	tb.Helper()
	if got := len(l.Lines(parts...)); got != n {
		tb.Errorf("%d lines of the log have %q, want %d; the log is\n%s", got, parts, n, strings.Join(l.Lines(), ""))
	}
}
