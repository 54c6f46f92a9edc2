package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Problem is one thing that is wrong with the configuration. It never holds
// the value of a password.
type Problem struct {
	File    string // empty: the problem is in the environment
	Line    int    // counted from 1; 0: the file as a whole
	Key     string // "redis.port", or "DELAYER_REDIS_PORT"; empty where a line has no key
	Message string // what is wrong, and what would be right
	Err     error  // why the file could not be read, for errors.Is; else nil
}

// Error is the problem on one line: "FILE:LINE: section.key: message".
func (p Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(oneLine(p.File))
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		b.WriteString(": ")
	}
	if p.Key != "" {
		b.WriteString(oneLine(p.Key) + ": ")
	}
	return b.String() + p.Message
}

// Unwrap is the cause that the operating system gave.
func (p Problem) Unwrap() error { return p.Err }

// Problems is everything that is wrong with a configuration: the file's
// problems by line, then those of the environment. It is the type of every error
// of this package.
type Problems []Problem

// Error is one problem a line, without a line break at the end.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives each problem to errors.Is and errors.As.
func (ps Problems) Unwrap() []error {
	errs := make([]error, len(ps))
	for i, p := range ps {
		errs[i] = p
	}
	return errs
}

// sorted keeps the order of problems on one line, and of the environment's.
func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(environmentLast(a), environmentLast(b)), cmp.Compare(a.Line, b.Line))
	})
	return ps
}

func environmentLast(p Problem) int {
	if p.File == "" {
		return 1
	}
	return 0
}

// oneLine is a name as a message may show it: as it is, or quoted when it has
// characters that would not be seen or would break the line.
func oneLine(name string) string {
	hidden := func(r rune) bool { return !strconv.IsPrint(r) }
	if name == "" || !utf8.ValidString(name) || strings.ContainsFunc(name, hidden) {
		return strconv.Quote(name)
	}
	return name
}

// shortened keeps a whole pasted file from filling the screen.
func shortened(name string) string {
	const most = 60
	if utf8.RuneCountInString(name) <= most {
		return name
	}
	return string([]rune(name)[:most]) + "…"
}
