package config

import (
	"fmt"
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
	Warning bool   // the configuration is of use nonetheless
}

// Error is the problem on one line: "FILE:LINE: section.key: message", with
// "warning: " behind the place where it is one.
func (p Problem) Error() string {
	text := p.Message
	if p.Key != "" {
		text = oneLine(p.Key) + ": " + text
	}
	if p.Warning {
		text = "warning: " + text
	}
	switch {
	case p.File == "":
		return text
	case p.Line == 0:
		return oneLine(p.File) + ": " + text
	}
	return fmt.Sprintf("%s:%d: %s", oneLine(p.File), p.Line, text)
}

// Unwrap is the cause that the operating system gave.
func (p Problem) Unwrap() error { return p.Err }

// Problems is what is wrong with a configuration: the file's problems by line,
// then those of the environment. It is the type of every error of this package.
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

// oneLine is a name as a message may show it: as it is, or quoted when it has
// characters that would not be seen or would break the line.
func oneLine(name string) string {
	hidden := func(r rune) bool { return r == utf8.RuneError || !strconv.IsPrint(r) }
	if strings.ContainsFunc(name, hidden) {
		return strconv.Quote(name)
	}
	return name
}

// shortened keeps a whole pasted file from filling the screen.
func shortened(name string) string {
	if short := fmt.Sprintf("%.60s", name); short != name {
		return short + "…"
	}
	return name
}
