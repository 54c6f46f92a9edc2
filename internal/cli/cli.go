// Package cli has the command line: its table of commands, options and help, and the commands themselves.
package cli

import (
	"cmp"
	"os"

	"github.com/mix-basic/delayer/internal/daemon"
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
