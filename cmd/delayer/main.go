// Command delayer is the Delayer daemon, with commands to push and take jobs from a shell.
package main

import (
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/mix-basic/delayer/internal/cli"
)

// version is the output of -v. A release sets it with -ldflags "-X main.version=…".
var version = "1.2.0-dev"

func main() {
	debug.SetTraceback("crash")    // a crash ends with SIGABRT instead of exit code 2, which means a wrong configuration
	signal.Ignore(syscall.SIGPIPE) // a closed pipe is an error of the write, no reason to exit
	os.Exit(cli.Main(os.Args[1:], os.Stdout, os.Stderr, version))
}
