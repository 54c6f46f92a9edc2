// Command delayer is the Delayer daemon, with commands to push and take jobs from a shell.
package main

import (
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

// version is the output of -v. A release sets it with -ldflags "-X main.version=…".
var version = "1.2.0-dev"

func main() {
	debug.SetTraceback("crash")    // a crash ends with SIGABRT instead of exit code 2, which means a wrong configuration
	signal.Ignore(syscall.SIGPIPE) // a closed pipe is an error of the write, no reason to exit
	os.Exit(report(run(os.Args[1:], os.Stdout, os.Stderr), os.Stderr))
}

func run(args []string, stdout, stderr *os.File) error {
	o, err := parse(args)
	switch {
	case err != nil:
		return asPlugin(o, err)
	case o.help:
		return printOut(stdout, o.page)
	case o.version:
		return printOut(stdout, version+"\n")
	case o.check:
		return checkConfiguration(o, stdout)
	case o.command != nil:
		return asPlugin(o, execute(o, stdout, stderr))
	case o.background:
		return serveInBackground(o, stdout, stderr)
	}
	return serve(o, foreground, stdout, stderr)
}
