// Package shelltest has what tests of the program and of its parts need of a user's shell: the environment, files, and the words of
// a line.
package shelltest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Environment returns a user's environment with an empty home, so that the only delayer.conf found
// on this machine is in /etc, plus the variables.
func Environment(tb testing.TB, variables ...string) []string {
	home := tb.TempDir()
	return append([]string{
		"PATH=" + os.Getenv("PATH"), "SystemRoot=" + os.Getenv("SystemRoot"),
		"HOME=" + home, "AppData=" + home,
	}, variables...)
}

// In runs f with this environment.
func In(env []string, f func()) {
	set := func(env []string) {
		os.Clearenv()
		for _, variable := range env {
			name, value, _ := strings.Cut(variable, "=")
			os.Setenv(name, value)
		}
	}
	defer set(os.Environ())
	set(env)
	f()
}

// Words splits a line like a shell that supports single quotes only.
func Words(tb testing.TB, line string) (words []string) {
	tb.Helper()
	parts := strings.Split(strings.TrimSpace(line), "'")
	if len(parts)%2 == 0 {
		tb.Fatalf("a quote has no end: %s", line)
	}
	word, begun := "", false
	for i, part := range parts {
		if i%2 == 1 {
			word, begun = word+part, true
			continue
		}
		for j, plain := range strings.Split(part, " ") {
			if j > 0 && (begun || word != "") {
				words, word, begun = append(words, word), "", false
			}
			word += plain
		}
	}
	if begun || word != "" {
		words = append(words, word)
	}
	return words
}

// Read returns a file's text.
func Read(tb testing.TB, path string) string {
	tb.Helper()
	content, err := os.ReadFile(path)
	redistest.Check(tb, err)
	return string(content)
}

// Write writes a file, and makes its folder.
func Write(tb testing.TB, path, content string) {
	tb.Helper()
	redistest.Check(tb, os.MkdirAll(filepath.Dir(path), 0o755))
	redistest.Check(tb, os.WriteFile(path, []byte(content), 0o644))
}
