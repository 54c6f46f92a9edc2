// Package exit has how the program ends: its exit codes, the errors that carry them, and the signals that end it.
package exit

import (
	"fmt"
	"strings"
)

// Exit codes of the daemon and of the commands. internal/cli/help/en.txt and zh.txt explain them.
const (
	Done        = 0
	Nothing     = 1
	Usage       = 2
	Redis       = 3
	Running     = 4
	Output      = 5
	Failed      = 6
	Interrupted = 130 // like a shell's code for a program ended by SIGINT
)

// Error is an error with its exit code.
type Error struct {
	Code  int
	Err   error  // nil: print nothing
	Usage string // printed below the error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// With returns an Error, whose err may be nil.
func With(code int, err error) error { return &Error{Code: code, Err: err} }

// OneLine returns the first and the last line of a text, where errors are most informative.
func OneLine(text string) string {
	text = strings.TrimSpace(text)
	first, others, more := strings.Cut(text, "\n")
	if !more {
		return first
	}
	return strings.TrimSpace(first) + " … " + strings.TrimSpace(others[strings.LastIndexByte(others, '\n')+1:])
}
