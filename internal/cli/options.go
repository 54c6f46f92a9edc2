package cli

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/daemon"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/nearest"
	"github.com/mix-basic/delayer/internal/store"
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

// flagSet parses flags with one dash or two. A flag with a value may be given once.
type flagSet struct {
	*flag.FlagSet
	given map[string]string              // values by flag name
	check func(arguments []string) error // checks flags and arguments together; may be nil
	wrong error                          // error of a wrong value
}

func newFlagSet(given map[string]string) *flagSet {
	f := &flagSet{FlagSet: flag.NewFlagSet("", flag.ContinueOnError), given: given}
	f.SetOutput(io.Discard)
	return f
}

// several defines a flag that may be given several times.
func (f *flagSet) several(name string, set func(value string) error) {
	f.Func(name, "", f.reported(name, set))
}

// reported keeps the error for parse, because package flag would keep only its text.
func (f *flagSet) reported(name string, set func(value string) error) func(value string) error {
	return func(value string) error {
		err := set(value)
		if err != nil {
			f.wrong = fmt.Errorf("%s%s: %w", dashed(name), quoted(name, value), err)
		}
		return err
	}
}

// quoted returns a value for an error message. It leaves out a URL, which may contain a password.
func quoted(name, value string) string {
	if name == "redis" {
		return ""
	}
	return fmt.Sprintf(" %q", value)
}

// one defines a flag with a value, under several names.
func (f *flagSet) one(names string, set func(value string) error) {
	for name := range strings.FieldsSeq(names) {
		f.several(name, func(value string) error {
			if before, twice := f.given[names]; twice {
				return fmt.Errorf("it was given before%s", quoted(name, before))
			}
			f.given[names] = value
			return set(value)
		})
	}
}

// toggle defines a flag without a value, under several names.
func (f *flagSet) toggle(names string, to *bool) {
	for name := range strings.FieldsSeq(names) {
		f.BoolFunc(name, "", f.reported(name, func(value string) (err error) {
			if *to, err = strconv.ParseBool(value); err != nil {
				return errors.New("want true or false")
			}
			return nil
		}))
	}
}

// text defines a flag whose value must not be empty, as in -c "$UNSET".
func (f *flagSet) text(names string, to *string) {
	f.one(names, func(value string) error {
		*to = value
		if value == "" {
			return errors.New("it is empty")
		}
		return nil
	})
}

// headers defines --header, which adds one of a job's headers.
func (f *flagSet) headers(to *map[string]string) {
	*to = map[string]string{}
	f.several("header", func(value string) error {
		name, text, complete := strings.Cut(value, "=")
		if !complete {
			return errors.New("want NAME=VALUE")
		}
		if _, twice := (*to)[name]; twice {
			return fmt.Errorf("the name %s was given before", store.Quote(name))
		}
		(*to)[name] = text
		if _, wrong := store.HeadersText(*to); wrong != "" {
			return fmt.Errorf("headers: %s", wrong)
		}
		return nil
	})
}

// number defines a flag with a number from 1 to most.
func (f *flagSet) number(name string, to *int, most int) {
	f.one(name, func(value string) (err error) {
		if *to, err = strconv.Atoi(value); err != nil || *to < 1 || *to > most {
			return fmt.Errorf("want a number from 1 to %d", most)
		}
		return nil
	})
}

// duration defines a flag with a positive duration.
func (f *flagSet) duration(name string, to *time.Duration, most time.Duration) {
	f.one(name, func(value string) (err error) {
		if *to, err = duration.Parse(value); err != nil || *to <= 0 || *to > most {
			return fmt.Errorf("want seconds, or a number with ms, s, m, h or d, above 0 and up to %s", duration.Bound(most))
		}
		return nil
	})
}

// oneOf defines a flag that accepts certain words.
func oneOf[T ~string](f *flagSet, name string, to *T, choices ...T) {
	f.one(name, func(value string) error {
		*to = T(value)
		if !slices.Contains(choices, *to) {
			return fmt.Errorf("want one of %q", choices)
		}
		return nil
	})
}

// parseMixed parses flags anywhere between the arguments, and returns the arguments. After a -- there are only
// arguments.
func (f *flagSet) parseMixed(words []string) (arguments []string, err error) {
	for len(words) > 0 {
		if err := f.parse(words); err != nil {
			return nil, err
		}
		rest := f.Args()
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

// parse parses the flags before the first argument. The error for an unknown flag suggests a similar one.
func (f *flagSet) parse(words []string) error {
	err := f.Parse(words)
	if err == nil || f.wrong != nil {
		return f.wrong
	}
	if name, is := strings.CutPrefix(err.Error(), "flag needs an argument: -"); is {
		return fmt.Errorf("%s needs a value", dashed(name))
	}
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return err
	}
	var names []string
	f.VisitAll(func(known *flag.Flag) {
		if len(known.Name) > 1 {
			names = append(names, known.Name)
		}
	})
	if meant := nearest.Of(name, names); meant != "" {
		return fmt.Errorf("unknown option %s, did you mean %s?", dashed(name), dashed(meant))
	}
	return fmt.Errorf("unknown option %s (an argument that begins with - goes behind --)", dashed(name))
}

// dashed returns a flag name with its dashes.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
