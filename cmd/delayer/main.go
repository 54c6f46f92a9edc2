// Command delayer is the Delayer daemon, and the commands that push and take
// jobs from a shell.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mix-basic/delayer/config"
)

// version is what -v prints. A release sets it with -ldflags "-X main.version=…".
var version = "1.1.0-dev"

func main() {
	os.Exit(report(run(os.Args[1:], os.Stdout, os.Stderr), os.Stderr))
}

func run(args []string, stdout, stderr io.Writer) error {
	o, err := parse(args)
	switch {
	case err != nil:
		return err
	case o.help && o.command != nil:
		fmt.Fprint(stdout, o.command.usage())
		return nil
	case o.help:
		fmt.Fprint(stdout, usage())
		return nil
	case o.version:
		fmt.Fprintln(stdout, version)
		return nil
	case o.command != nil:
		return execute(o, stdout)
	case o.background:
		return serveInBackground(o, stdout, stderr)
	}
	return serve(o, foreground, stdout)
}

// The exit codes.
const (
	exitFailed  = 1 // the daemon could not start, or did not end well
	exitNothing = 1 // a command found no job
	exitUsage   = 2 // the command line or the configuration is wrong
	exitRedis   = 3 // a command could not reach Redis, or was refused by it
)

// failure is an error with the exit code that goes with it.
type failure struct {
	code  int
	err   error  // nil: everything has been said already
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

// report prints the error and returns the exit code. Problems of a configuration
// begin with the place, for editors to jump to; that a queue is empty is no error,
// but a word to whoever reads along.
func report(err error, stderr io.Writer) int {
	if err == nil {
		return 0
	}
	f := &failure{code: exitFailed, err: err}
	errors.As(err, &f)
	mark := "ERROR: "
	if errors.As(err, new(config.Problems)) || isNothing(err) {
		mark = ""
	}
	if f.err != nil {
		for line := range strings.Lines(strings.TrimPrefix(err.Error(), "delayer: ")) {
			fmt.Fprintf(stderr, "%s%s\n", mark, strings.TrimSuffix(line, "\n"))
		}
	}
	if f.usage != "" {
		fmt.Fprintf(stderr, "\n%s", f.usage)
	}
	return f.code
}
