package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
)

// options are what the command line says.
type options struct {
	configuration string // empty: search
	background    bool
	dev           bool
	help          bool
	version       bool

	command   *command // nil: the daemon
	arguments []string
	json      bool
	id        string // of push
}

// parse reads the command line. Its error is a failure with the usage.
func parse(args []string) (options, error) {
	var o options
	flags := o.flags("delayer")
	boolean(flags, &o.background, "d", "daemon")
	boolean(flags, &o.version, "v", "version")
	boolean(flags, &o.dev, "dev")
	if err := flags.Parse(args); err != nil {
		return o, &failure{exitUsage, err, usage()}
	}
	if err := o.parseCommand(flags.Args()); err != nil {
		return o, err
	}
	if o.dev && o.background {
		return o, &failure{exitUsage, errors.New("--dev runs in the foreground only: it keeps nothing, and would be forgotten in the background"), usage()}
	}
	return o, nil
}

// flags are those that go with the daemon and with every command.
func (o *options) flags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	setConfiguration := func(path string) error {
		if path == "" { // as from -c "$UNSET"
			return errors.New("want the path of a file")
		}
		o.configuration = path
		return nil
	}
	flags.Func("c", "", setConfiguration)
	flags.Func("configuration", "", setConfiguration)
	boolean(flags, &o.help, "h", "help")
	return flags
}

func boolean(flags *flag.FlagSet, value *bool, names ...string) {
	for _, name := range names {
		flags.BoolVar(value, name, *value, "")
	}
}

// parseCommand reads a command's name, its arguments and its flags. No words at
// all mean the daemon.
func (o *options) parseCommand(words []string) error {
	if len(words) == 0 || o.help || o.version {
		return nil
	}
	c := findCommand(words[0])
	switch {
	case c == nil:
		return &failure{exitUsage, fmt.Errorf("unknown command %q", words[0]), usage()}
	case o.background || o.dev:
		return &failure{exitUsage, fmt.Errorf("%s: -d and --dev are for the daemon, not for a command", c.name), c.usage()}
	}
	o.command = c
	flags := o.flags(c.name)
	boolean(flags, &o.json, "json")
	if c.flags != nil {
		c.flags(flags, o)
	}
	var err error
	o.arguments, err = parseMixed(flags, words[1:])
	if err == nil && !o.help {
		err = c.checkArguments(o.arguments)
	}
	if err != nil {
		return &failure{exitUsage, fmt.Errorf("%s: %w", c.name, err), c.usage()}
	}
	return nil
}

// parseMixed parses flags that may stand anywhere between the arguments, which it
// returns. Behind a -- there are only arguments.
func parseMixed(flags *flag.FlagSet, words []string) (arguments []string, err error) {
	for len(words) > 0 {
		if err := flags.Parse(words); err != nil {
			if strings.Contains(err.Error(), "not defined") {
				err = fmt.Errorf("%w (an argument that begins with - goes behind --)", err)
			}
			return nil, err
		}
		rest := flags.Args()
		if parsed := len(words) - len(rest); parsed > 0 && words[parsed-1] == "--" {
			return append(arguments, rest...), nil
		}
		if len(rest) == 0 {
			break
		}
		arguments, words = append(arguments, rest[0]), rest[1:]
	}
	return arguments, nil
}
