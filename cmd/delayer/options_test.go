package main

import (
	"flag"
	"strings"
	"testing"
)

const usageStart = `Usage: delayer [options]

Options:
-d/--daemon run in the background
-c/--configuration FILENAME -- configuration file path (searches if not given)
-h/--help -- print this usage message and exit
-v/--version -- print version number and exit

`

// All that can be run can be asked about, in each way that people try.
func TestHelp(t *testing.T) {
	pages := map[string]string{"help": "Usage: " + helpLine, "version": "Usage: " + versionLine, "dead": groupUsage("dead")}
	for _, c := range commands() {
		pages[c.name] = c.usage()
	}
	want := map[string]string{
		"-h": usage(), "--help": usage(), "-help": usage(), "help": usage(), "-h dead": usage(), "-c a --help push": usage(),
		"-d -c nowhere -h": usage(), "push topic --help 5": pages["push"],
	}
	for name, page := range pages {
		for _, line := range []string{"help " + name, name + " --help", name + " -h", name + " -help"} {
			want[line] = page
		}
	}
	for line, page := range want {
		if o, err := parse(strings.Fields(line)); err != nil || !o.help || o.page != page {
			t.Errorf("delayer %s: %v, page %q, want %q", line, err, o.page, page)
		}
	}
	for _, line := range []string{"-h", "help", "help dead", "dead --help", "push topic --help 5"} {
		if r := runBinary(t, t.TempDir(), environment(t), strings.Fields(line)...); r != (result{stdout: want[line]}) {
			t.Errorf("%s: %+v", line, r)
		}
	}
}

// The usage begins as the original's, and leaves out nothing that exists.
func TestUsageIsComplete(t *testing.T) {
	pages := map[string][]string{usage(): {"\n--dev", "\n--json", "\n--check-config", "\n--check-redis", helpLine, versionLine, durations}}
	if !strings.HasPrefix(usage(), usageStart) {
		t.Errorf("it begins otherwise: %s", usage())
	}
	for _, c := range commands() {
		synopsis := strings.TrimSpace(c.name + " " + c.arguments)
		line := "\ndelayer " + synopsis + " -- " + c.help + "\n"
		pages[usage()] = append(pages[usage()], line)
		if topic, _, two := strings.Cut(c.name, " "); two {
			pages[groupUsage(topic)] = append(pages[groupUsage(topic)], line)
		}
		pages[c.usage()] = []string{"Usage: delayer " + synopsis, c.help, c.options, commandOptions, c.note}
		for option := range strings.Lines(c.options) {
			pages[usage()] = append(pages[usage()], "\n  "+option)
		}
		if strings.Contains(c.arguments, "DELAY") {
			pages[c.usage()] = append(pages[c.usage()], durations)
		}
		if flags := flag.NewFlagSet("", flag.ContinueOnError); c.flags != nil {
			c.flags(flags, new(options))
			flags.VisitAll(func(f *flag.Flag) { pages[c.usage()] = append(pages[c.usage()], "\n--"+f.Name+" ") })
		}
		if c.run == nil || c.least > c.most {
			t.Errorf("%s can't be run", c.name)
		}
	}
	for page, texts := range pages {
		if !strings.HasSuffix(page, "\n") {
			t.Errorf("its last line does not end: %s", page)
		}
		for _, text := range texts {
			if !strings.Contains(page, text) {
				t.Errorf("no %q in %s", text, page)
			}
		}
	}
}

func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"-v"}, {"--version"}, {"-d", "-v"}, {"version"}} {
		r := runBinary(t, t.TempDir(), environment(t), args...)
		if r != (result{stdout: "1.1.0-dev\n"}) {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// Every wrong command line ends with 2, a line that names what is wrong, and the
// usage, all of it on stderr.
func TestUsageErrors(t *testing.T) {
	for line, message := range map[string]string{
		"-x":                       "flag provided but not defined: -x",
		"--daemonize":              "flag provided but not defined: -daemonize",
		"-c":                       "flag needs an argument: -c",
		"-c=":                      `invalid value "" for flag -c: want the path of a file`,
		"-v=maybe":                 `invalid boolean value "maybe" for -v: parse error`,
		"start":                    `unknown command "start"`,
		"-c a.conf b.conf":         `unknown command "b.conf"`,
		"--dev -d":                 "--dev runs in the foreground only: it keeps nothing, and would be forgotten in the background",
		"--check-config --dev":     "--check-config and --check-redis start nothing: leave out -d and --dev",
		"-d --check-config":        "--check-config and --check-redis start nothing: leave out -d and --dev",
		"--json":                   "--json is for a command",
		"-c a -c b":                `invalid value "b" for flag -c: "a" was given before`,
		"-c a --configuration=b":   `invalid value "b" for flag -configuration: "a" was given before`,
		"-c a pop -c b topic":      `pop: invalid value "b" for flag -c: "a" was given before`,
		"push --id 1 t 5 b --id 2": `push: invalid value "2" for flag -id: "1" was given before`,
		"push --id= t 5 b":         `push: invalid value "" for flag -id: want a job's ID`,
		"help me":                  `unknown command "me"`,
		"help pop bpop":            `unexpected argument "bpop"`,
		"help dead list more":      `unexpected argument "more"`,
		"help help me":             `unexpected argument "me"`,
		"version 2":                `unexpected argument "2"`,
		"-d pop topic":             "pop: -d, --dev, --check-config and --check-redis are for the daemon, not for a command",
		"--dev pop topic":          "pop: -d, --dev, --check-config and --check-redis are for the daemon, not for a command",
		"--check-config pop topic": "pop: -d, --dev, --check-config and --check-redis are for the daemon, not for a command",
		"pop":                      "pop: too few arguments: want TOPIC",
		"pop a b":                  `pop: unexpected argument "b": want TOPIC`,
		"pop --id 1 a":             "pop: flag provided but not defined: -id (an argument that begins with - goes behind --)",
		"push a 5 -hello":          "push: flag provided but not defined: -hello (an argument that begins with - goes behind --)",
		"push a 5 b --id":          "push: flag needs an argument: -id",
		"push a 5 b --ttr 25h":     `push: invalid value "25h" for flag -ttr: want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`,
		"push a 5 b --ttr 1e3":     `push: invalid value "1e3" for flag -ttr: want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`,
		"push a 5 b --ttr 0":       `push: invalid value "0" for flag -ttr: want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`,
		"push a 5 b --id 1 --once 1h --debounce 1m":    `push: --debounce: it does not go together with --once: want one of the two`,
		"push a 5 b --once 10m":                        `push: --once: it means nothing without --id`,
		"push a 5 b --id 1 --follow --once 1h":         `push: --follow: it does not go together with --once: want one of the two`,
		"push a 5 b --id 1 --follow --debounce 1h":     `push: --debounce: it does not go together with --follow: want one of the two`,
		"push a 5 b --follow":                          `push: --follow: it means nothing without --id`,
		"push a 5 b --debounce 1m":                     `push: --debounce: it means nothing without --id`,
		"push a 5 b --id 1 --once 0":                   `push: invalid value "0" for flag -once: want seconds, or a number with ms, s, m, h or d, above 0 and up to 100 years`,
		"push a 5 b --id 1 --debounce 101y":            `push: invalid value "101y" for flag -debounce: want seconds, or a number with ms, s, m, h or d, above 0 and up to 100 years`,
		"push a 0 b --group k":                         `push: --group: --quiet and --longest are missing: want one of the two, or both`,
		"push a 0 b --max 3":                           `push: --max: it means nothing without --group`,
		"push a 0 b --group k --quiet 1m --id a":       `push: --id: with --group it means nothing without --once`,
		"push a 0 b --group k --quiet 1m --debounce 1": `push: --debounce: it does not go together with --group: want one of the two`,
		"push a 5 b --replicas 101":                    `push: invalid value "101" for flag -replicas: want a number from 1 to 100`,
		"push a 5 b --replicas-timeout 1s":             `push: --replicas-timeout: it means nothing without --replicas`,
		"push a 5 b --replicas-timeout 11s":            `push: invalid value "11s" for flag -replicas-timeout: want seconds, or a number with ms, s, m, h or d, above 0 and up to 10s`,
		"push a 5 b --max-attempts 0":                  `push: invalid value "0" for flag -max-attempts: want a number from 1 to 2147483647`,
		"push a 5 b --max-attempts 2147483648":         `push: invalid value "2147483648" for flag -max-attempts: want a number from 1 to 2147483647`,
		"push a 5 b --max-attempts 1 --max-attempts 1": `push: invalid value "1" for flag -max-attempts: 1 was given before`,
		"dead":                                      "dead is followed by list, requeue, drop",
		"dead lst t":                                "dead is followed by list, requeue, drop",
		"help dead lst":                             "dead is followed by list, requeue, drop",
		"dead list":                                 "dead list: too few arguments: want TOPIC",
		"dead drop t 1 2":                           `dead drop: unexpected argument "2": want TOPIC [ID]`,
		"worker":                                    "worker: --topic is missing: whose jobs are to be handled?",
		"worker --topic t":                          "worker: what is to be run? want --exec CMD, or a program and its arguments behind the flags",
		"worker --topic t --exec true -- true":      "worker: want either --exec CMD or a program and its arguments, not both",
		"worker --topic t --exec=":                  `worker: invalid value "" for flag -exec: want a command for the shell`,
		"worker --topic= true":                      `worker: invalid value "" for flag -topic: a topic is empty: want TOPIC, or several with commas between them`,
		"worker --topic a,,b true":                  `worker: invalid value "a,,b" for flag -topic: a topic is empty: want TOPIC, or several with commas between them`,
		"worker --topic a,b --topic c,a true":       `worker: invalid value "c,a" for flag -topic: "a" was given before`,
		"worker --topic t --concurrency 0 true":     `worker: invalid value "0" for flag -concurrency: want a number from 1 to 250`,
		"worker --topic t --concurrency 251 true":   `worker: invalid value "251" for flag -concurrency: want a number from 1 to 250`,
		"worker --topic t --concurrency many true":  `worker: invalid value "many" for flag -concurrency: want a number from 1 to 250`,
		"worker --topic t --lease -1s true":         `worker: invalid value "-1s" for flag -lease: want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`,
		"worker --topic t --lease 24h1s true":       `worker: invalid value "24h1s" for flag -lease: want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`,
		"worker --topic t --lease NaN true":         `worker: invalid value "NaN" for flag -lease: want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`,
		"worker --topic t --lease 1 --lease 2 true": `worker: invalid value "2" for flag -lease: 1s was given before`,
		"worker --topic t --timeout 0 true":         `worker: invalid value "0" for flag -timeout: want seconds, or a number with ms, s, m, h or d, above 0 and up to 100 years`,
		"worker --topic t --max-attempts 0 true":    `worker: invalid value "0" for flag -max-attempts: want a number from 1 to 2147483647`,
		"-d worker --topic t true":                  "worker: -d, --dev, --check-config and --check-redis are for the daemon, not for a command",
		"push a 5 b c --json":                       `push: unexpected argument "c": want TOPIC DELAY BODY [--id ID]`,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			page := usage()
			if name, _, ofCommand := strings.Cut(message, ": "); ofCommand {
				if c, _ := findCommand(strings.Fields(name)); c != nil {
					page = c.usage()
				}
			}
			want := result{stderr: "ERROR: " + message + "\n\n" + page, code: exitUsage}
			if r := runBinary(t, t.TempDir(), environment(t), strings.Fields(line)...); r != want {
				t.Errorf("got %+v\nwant %+v", r, want)
			}
		})
	}
}
