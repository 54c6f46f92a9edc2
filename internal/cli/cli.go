// Package cli has the command line: its table of commands, options and help, and the commands themselves.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strings"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/async"
	"github.com/mix-basic/delayer/internal/daemon"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/health"
)

// Main runs a command line and returns the exit code.
func Main(args []string, stdout, stderr *os.File, version string) int {
	return report(run(args, stdout, stderr, version), stderr)
}

func run(args []string, stdout, stderr *os.File, version string) error {
	o, err := parse(args)
	o.Version = version
	switch {
	case err != nil:
		return asPlugin(o, err)
	case o.help:
		return printOut(stdout, o.page)
	case o.version:
		return printOut(stdout, version+"\n")
	case o.check:
		text, err := daemon.CheckConfiguration(o.Options)
		return cmp.Or(err, printOut(stdout, text))
	case o.command != nil:
		return asPlugin(o, execute(o, stdout, stderr))
	}
	return daemon.Serve(o.Options, stdout, stderr)
}

// withExitCode adds an exit code to a command's error, unless it has one.
func withExitCode(ctx context.Context, err error) error {
	switch {
	case err == nil, errors.As(err, new(*exit.Error)):
		return err
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exit.With(exit.Interrupted, nil)
	case isNothing(err):
		return exit.With(exit.Nothing, err)
	case errors.Is(err, client.ErrInvalid):
		return exit.With(exit.Usage, err)
	case errors.Is(err, client.ErrExists), errors.Is(err, client.ErrOtherTopic), errors.As(err, new(*client.ReplicasError)):
		return exit.With(exit.Failed, err)
	}
	return exit.With(exit.Redis, unreachable(err))
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
	f := new(exit.Error)
	if o.command == nil || !o.command.plugin || !errors.As(err, &f) || f.Err == nil {
		return err
	}
	code := int(health.Unknown)
	if f.Code == exit.Redis {
		code = int(health.Critical)
	}
	return &exit.Error{Code: code, Err: f.Err, Usage: f.Usage}
}

// isNothing reports whether the error means that there is no such job, dead letter or schedule.
func isNothing(err error) bool {
	return errors.Is(err, client.ErrEmpty) || errors.Is(err, client.ErrNotFound) || isProblem(err, "not-found")
}

// report prints the error and returns the exit code.
func report(err error, stderr io.Writer) int {
	if err == nil {
		return exit.Done
	}
	f := &exit.Error{Code: exit.Failed, Err: err}
	errors.As(err, &f)
	text := ""
	if f.Err != nil {
		text = errorText(err)
	}
	if f.Usage != "" {
		text += "\n" + f.Usage
	}
	async.Briefly(func() { io.WriteString(stderr, text) })
	return f.Code
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
