package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/internal/daemon"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/nearest"
)

// options is a parsed command line.
type options struct {
	daemon.Options
	url       string // --url; empty: not given
	tokenFile string
	check     bool // --check-config
	help      bool
	page      string // help page to print
	version   bool

	command   *command // nil: the daemon
	run       action   // runs the command
	arguments []string
	json      bool
	given     map[string]string // values by flag name
}

// parse reads the command line. Its error has a usage line.
func parse(args []string) (o options, err error) {
	o.given = map[string]string{}
	if err = o.parse(args); err == nil {
		return o, nil
	}
	usage := inWords().usage(o.command)
	if o.command != nil {
		err = fmt.Errorf("%s: %w", o.command.name, err)
	}
	return o, &exit.Error{Code: exit.Usage, Err: err, Usage: usage}
}

func (o *options) parse(args []string) error {
	flags := o.daemonFlags()
	if err := flags.parse(args); err != nil {
		return err
	}
	words := flags.Args()
	switch {
	case o.help:
		o.page = inWords().page()
		return nil
	case o.version:
		return nil
	case len(words) > 0:
		return o.parseCommand(words)
	}
	return o.checkDaemon()
}

// flags returns the flags of the daemon and of every command.
func (o *options) flags() *flagSet {
	f := newFlagSet(o.given)
	f.text("c configuration", &o.Configuration)
	f.text("redis", &o.Redis)
	f.text("url", &o.url)
	f.text("token-file", &o.tokenFile)
	f.toggle("json", &o.json)
	f.toggle("h help", &o.help)
	return f
}

// commandFlags returns a command's flags and its action.
func (o *options) commandFlags(c *command) (*flagSet, action) {
	f := o.flags()
	run := c.begin(f)
	if f.Lookup("quiet") == nil { // push has its own --quiet
		f.toggle("quiet", &o.Quiet)
	}
	return f, run
}

// daemonFlags returns the flags before a command, or without a command.
func (o *options) daemonFlags() *flagSet {
	f := o.flags()
	f.toggle("d daemon", &o.Background)
	f.toggle("v version", &o.version)
	f.toggle("dev", &o.Dev)
	f.toggle("quiet", &o.Quiet)
	f.toggle("check-config", &o.check)
	return f
}

// checkDaemon refuses flags that exclude each other or need a command.
func (o *options) checkDaemon() error {
	switch {
	case o.Dev && o.Background:
		return errors.New("--dev runs in the foreground only: it keeps nothing, and would be forgotten in the background")
	case o.check && (o.Dev || o.Background):
		return errors.New("--check-config starts nothing: leave out -d and --dev")
	case o.Dev && o.Redis != "":
		return errors.New("--dev has a Redis of its own: leave out --redis")
	case o.url != "" || o.tokenFile != "":
		return errors.New("--url and --token-file are for a command")
	case o.json, o.Quiet:
		return errors.New("--json and --quiet are for a command")
	}
	return nil
}

// parseCommand reads a command's name, its arguments and its flags.
func (o *options) parseCommand(words []string) error {
	c, rest := findCommand(words)
	if c == nil {
		if len(words) > 1 && slices.Contains([]string{"-h", "--h", "-help", "--help"}, words[1]) && len(subcommands(words[0])) > 0 {
			o.help, o.page = true, inWords().groupPage(words[0])
			return nil
		}
		return unknownCommand(words)
	}
	o.command, o.ForCommand = c, true
	if o.Background || o.Dev || o.check {
		return errors.New("-d, --dev and --check-config are for the daemon, not for a command")
	}
	flags, run := o.commandFlags(c)
	o.run = run
	var err error
	if c.program { // the program has its own flags
		err = flags.parse(rest)
		o.arguments = flags.Args()
	} else {
		o.arguments, err = flags.parseMixed(rest)
	}
	switch n := len(o.arguments); {
	case err != nil:
		return err
	case o.help:
		o.page = inWords().commandPage(c)
		return nil
	case o.url != "" && (o.Redis != "" || o.Configuration != ""):
		return errors.New("--url says where the daemon is: leave out --redis and -c")
	case n < c.least():
		return fmt.Errorf("too few arguments: want %s", c.arguments)
	case n > c.most():
		return fmt.Errorf("unexpected argument %q: want %s", o.arguments[c.most()], cmp.Or(c.arguments, "none"))
	case flags.check != nil:
		return flags.check(o.arguments)
	}
	return nil
}

// unknownCommand returns an error that lists the commands beginning with the first word, or suggests a similar
// command.
func unknownCommand(words []string) error {
	if second := subcommands(words[0]); len(second) > 0 {
		return fmt.Errorf("%s is followed by %s", words[0], strings.Join(second, ", "))
	}
	if meant := nearest.Of(words[0], firstWords()); meant != "" {
		return fmt.Errorf("unknown command %q, did you mean %s?", words[0], meant)
	}
	return fmt.Errorf("unknown command %q", words[0])
}
