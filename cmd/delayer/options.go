package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
)

// options are what the command line says.
type options struct {
	configuration string // empty: search
	background    bool
	dev           bool
	check         bool // --check-config
	checkRedis    bool // --check-redis, which is a --check-config as well
	help          bool
	page          string // of help
	version       bool

	command   *command // nil: the daemon
	arguments []string
	json      bool
	noWait    bool

	// The flags of some commands; zero: not given.
	id                  string
	ttr, lease, timeout time.Duration
	once, debounce      time.Duration
	pauseFor            time.Duration // 0 has no end
	note                string
	replace             bool // a pause that is in force
	limit               client.Limit
	noLimit             bool
	follow              bool
	group               string
	max                 int
	quiet, longest      time.Duration
	replicasTimeout     time.Duration
	maxAttempts         int
	replicas            int
	concurrency         int
	topics              []string
	shell               string // --exec
	zone                string
	missed              client.Missed
	overlap             client.Overlap
	jitter              time.Duration
}

// parse reads the command line. Its error is a failure with the usage of what was meant.
func parse(args []string) (o options, err error) {
	if err = o.parse(args); err == nil {
		return o, nil
	}
	page := usage()
	if o.command != nil {
		err, page = fmt.Errorf("%s: %w", o.command.name, err), o.page
	}
	return o, &failure{exitUsage, err, page}
}

func (o *options) parse(args []string) error {
	flags := o.flags("delayer")
	boolean(flags, &o.background, "d", "daemon")
	boolean(flags, &o.version, "v", "version")
	boolean(flags, &o.dev, "dev")
	boolean(flags, &o.check, "check-config")
	boolean(flags, &o.checkRedis, "check-redis")
	if err := flags.Parse(args); err != nil {
		return err
	}
	o.check = o.check || o.checkRedis
	if err := o.parseCommand(flags.Args()); err != nil {
		return err
	}
	return o.checkDaemon()
}

// checkDaemon finds flags that do not go together, or not without a command.
func (o *options) checkDaemon() error {
	switch {
	case o.dev && o.background:
		return errors.New("--dev runs in the foreground only: it keeps nothing, and would be forgotten in the background")
	case o.check && (o.dev || o.background):
		return errors.New("--check-config and --check-redis start nothing: leave out -d and --dev")
	case o.json && o.command == nil && !o.help && !o.version:
		return errors.New("--json is for a command")
	}
	return nil
}

// flags are those that go with the daemon and with every command.
func (o *options) flags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	for _, name := range []string{"c", "configuration"} {
		flags.Func(name, "", setOnce(&o.configuration, "the path of a file"))
	}
	boolean(flags, &o.json, "json")
	boolean(flags, &o.help, "h", "help")
	return flags
}

// setOnce sets the value of a flag that may be given once and not be empty, as it
// is from -c "$UNSET".
func setOnce(value *string, want string) func(string) error {
	return func(given string) error {
		switch {
		case *value != "":
			return fmt.Errorf("%q was given before", *value)
		case given == "":
			return errors.New("want " + want)
		}
		*value = given
		return nil
	}
}

func boolean(flags *flag.FlagSet, value *bool, names ...string) {
	for _, name := range names {
		flags.BoolVar(value, name, *value, "")
	}
}

// parseCommand reads a command's name, its arguments and its flags. No words at
// all mean the daemon.
func (o *options) parseCommand(words []string) error {
	c, rest := findCommand(words)
	switch {
	case o.help:
		return o.parseHelp(nil)
	case len(words) == 0 || o.version:
		return nil
	case c == nil && len(words) > 1 && isHelpFlag(words[1]):
		return o.parseHelp(words[:1])
	case words[0] == "help":
		return o.parseHelp(words[1:])
	case words[0] == "version":
		o.version = true
		return noMore(words[1:])
	case c == nil:
		return unknownCommand(words)
	}
	o.command, o.page = c, c.usage()
	if o.background || o.dev || o.check {
		return errors.New("-d, --dev, --check-config and --check-redis are for the daemon, not for a command")
	}
	flags := o.flags(c.name)
	if c.flags != nil {
		c.flags(flags, o)
	}
	var err error
	if c.program { // whose flags are its own
		err = flags.Parse(rest)
		o.arguments = flags.Args()
	} else {
		o.arguments, err = parseMixed(flags, rest)
	}
	if err != nil || o.help {
		return err
	}
	return c.checkArguments(o)
}

// parseHelp reads what stands behind help: nothing, a command, or the first of a command's two words.
func (o *options) parseHelp(words []string) error {
	o.help = true
	c, rest := findCommand(words)
	switch {
	case len(words) == 0:
		o.page = usage()
	case words[0] == "help":
		o.page, rest = "Usage: "+helpLine, words[1:]
	case words[0] == "version":
		o.page, rest = "Usage: "+versionLine, words[1:]
	case c != nil:
		o.page = c.usage()
	case len(words) == 1 && len(group(words[0])) > 0:
		o.page = groupUsage(words[0])
	default:
		return unknownCommand(words)
	}
	return noMore(rest)
}

func isHelpFlag(word string) bool {
	return slices.Contains([]string{"-h", "--h", "-help", "--help"}, word)
}

func noMore(words []string) error {
	if len(words) == 0 {
		return nil
	}
	return fmt.Errorf("unexpected argument %q", words[0])
}

func unknownCommand(words []string) error {
	var second []string // of the commands that begin with this word
	for _, c := range group(words[0]) {
		second = append(second, strings.TrimPrefix(c.name, words[0]+" "))
	}
	if len(second) > 0 {
		return fmt.Errorf("%s is followed by %s", words[0], strings.Join(second, ", "))
	}
	return fmt.Errorf("unknown command %q", words[0])
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
