package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/async"
	"github.com/mix-basic/delayer/internal/health"
)

// Exit codes of the daemon and of the commands. help/en.txt and help/zh.txt explain them.
const (
	exitDone        = 0
	exitNothing     = 1
	exitUsage       = 2
	exitRedis       = 3
	exitRunning     = 4
	exitOutput      = 5
	exitFailed      = 6
	exitInterrupted = 130 // like a shell's code for a program ended by SIGINT
)

// failure is an error with its exit code.
type failure struct {
	code  int
	err   error  // nil: print nothing
	usage string // printed below the error
}

func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit code %d", f.code)
	}
	return f.err.Error()
}

func (f *failure) Unwrap() error { return f.err }

func fail(code int, err error) error { return &failure{code: code, err: err} }

// withExitCode adds an exit code to a command's error, unless it has one.
func withExitCode(ctx context.Context, err error) error {
	switch {
	case err == nil, errors.As(err, new(*failure)):
		return err
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return fail(exitInterrupted, nil)
	case isNothing(err):
		return fail(exitNothing, err)
	case errors.Is(err, client.ErrInvalid):
		return fail(exitUsage, err)
	case errors.Is(err, client.ErrExists), errors.As(err, new(*client.ReplicasError)):
		return fail(exitFailed, err)
	}
	return fail(exitRedis, unreachable(err))
}

// noMaster begins what the sentinels said. dialing is what package net puts in front of a cause, behind the sentinel's address.
var noMaster, dialing = regexp.MustCompile(`no master "[^"]*" is found`), regexp.MustCompile(`dial (tcp|unix) \S+: (connect: )?`)

// unreachable shortens the error of a failed connection, because the call that needed it does not
// matter.
func unreachable(err error) error {
	if at := noMaster.FindStringIndex(err.Error()); at != nil {
		return errors.New(dialing.ReplaceAllString(err.Error()[at[0]:], ""))
	}
	var dial *net.OpError
	if !errors.As(err, &dial) || dial.Op != "dial" || !strings.HasSuffix(err.Error(), dial.Error()) {
		return err
	}
	var cause error = dial.Err
	if call := new(os.SyscallError); errors.As(cause, &call) {
		cause = call.Err
	}
	if dial.Addr == nil { // wrong host name
		return fmt.Errorf("cannot connect to Redis: %w", cause)
	}
	return fmt.Errorf("cannot connect to Redis at %s: %w", dial.Addr, cause)
}

// asPlugin maps an error of a monitoring plugin to a plugin's exit code: 2 means critical, 3 unknown.
func asPlugin(o options, err error) error {
	f := new(failure)
	if o.command == nil || !o.command.plugin || !errors.As(err, &f) || f.err == nil {
		return err
	}
	code := int(health.Unknown)
	if f.code == exitRedis {
		code = int(health.Critical)
	}
	return &failure{code, f.err, f.usage}
}

// isNothing reports whether the error means that there is no such job, dead letter or schedule.
func isNothing(err error) bool {
	return errors.Is(err, client.ErrEmpty) || errors.Is(err, client.ErrNotFound) || isProblem(err, "not-found")
}

// report prints the error and returns the exit code.
func report(err error, stderr io.Writer) int {
	if err == nil {
		return exitDone
	}
	f := &failure{code: exitFailed, err: err}
	errors.As(err, &f)
	text := ""
	if f.err != nil {
		text = errorText(err)
	}
	if f.usage != "" {
		text += "\n" + f.usage
	}
	briefly(func() { io.WriteString(stderr, text) })
	return f.code
}

// errorText marks each line as an error. Configuration problems begin with their position, so that editors can jump
// there. An empty queue is no error.
func errorText(err error) string {
	mark := "ERROR: "
	if errors.As(err, new(config.Problems)) || isNothing(err) {
		mark = ""
	}
	text := ""
	for line := range strings.Lines(strings.TrimPrefix(err.Error(), "delayer: ")) {
		text += mark + strings.TrimSuffix(line, "\n") + "\n"
	}
	return text
}

// briefly is atMost for what must not delay the work, or the daemon's stop.
func briefly(f func()) { atMost(async.FlushWait, f) }

// atMost runs f, but stops waiting for it after some time. Printing blocks if nobody reads the output.
func atMost(wait time.Duration, f func()) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	await(ctx, func() error { f(); return nil })
}
