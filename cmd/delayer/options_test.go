package main

import (
	"flag"
	"maps"
	"regexp"
	"slices"
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

// Everything that can be run has help, in each way that people try.
func TestHelp(t *testing.T) {
	w := readWords("en")
	pages := map[string]string{"dead": w.groupPage("dead"), "schedule": w.groupPage("schedule")}
	for _, c := range listed() {
		pages[c.name] = w.commandPage(&c)
	}
	want := map[string]string{
		"-h": w.page(), "--help": w.page(), "-help": w.page(), "help": w.page(), "-h dead": w.page(), "-c a --help push": w.page(),
		"-d -c nowhere -h": w.page(), "push topic --help 5": pages["push"],
	}
	for name, page := range pages {
		for _, line := range []string{name + " --help", name + " -h", name + " -help"} {
			want[line] = page
		}
		if text, err := w.pageOn(strings.Fields(name)); err != nil || text != page {
			t.Errorf("delayer help %s: %v, %q, want %q", name, err, text, page)
		}
	}
	for line, page := range want {
		if line == "help" {
			continue
		}
		if o, err := parse(strings.Fields(line)); err != nil || !o.help || o.page != page {
			t.Errorf("delayer %s: %v, page %q, want %q", line, err, o.page, page)
		}
	}
	for _, line := range []string{"-h", "help", "dead --help", "push topic --help 5"} {
		if r := runBinary(t, t.TempDir(), environment(t), strings.Fields(line)...); r != (result{stdout: want[line]}) {
			t.Errorf("%s: %+v", line, r)
		}
	}
}

// listed returns the commands shown in the help.
func listed() []command {
	return slices.DeleteFunc(commands(), func(c command) bool { return c.name == completeCommand })
}

// Both languages have a page for each command and each group in the list of all commands, a text for each option, and nothing
// else. Each page has two examples that the parser accepts.
func TestHelpIsComplete(t *testing.T) {
	for _, language := range []string{"en", "zh"} {
		w := readWords(language)
		left := maps.Clone(w.pages)
		for _, name := range []string{"delayer", "usage", "options", "examples", "more", "more of", "commands", "durations", "codes", "exit codes", "exit codes of fsck", "exit codes of doctor", "exit codes of check", "exit codes of bundle", "daemon", "common", "dead", "schedule"} {
			if delete(left, name); w.pages[name] == nil || w.say(name) == "" {
				t.Errorf("%s.txt: no [%s]", language, name)
			}
		}
		o := options{given: map[string]string{}}
		common := o.flags()
		common.toggle("quiet", new(bool))
		wantOptions(t, language, "common", common, w.pages["common"].options)
		wantOptions(t, language, "daemon", o.daemonFlags(), append(w.pages["daemon"].options, slices.Concat([]option{{flags: "-d/--daemon"}, {flags: "-v/--version"}}, w.pages["common"].options)...))
		for _, c := range listed() {
			p := w.pages[c.name]
			if delete(left, c.name); p == nil || p.summary == "" || !strings.HasSuffix(w.commandPage(&c), "\n") {
				t.Errorf("%s.txt: no [%s]", language, c.name)
				continue
			}
			flags := newFlagSet(map[string]string{})
			c.begin(flags)
			wantOptions(t, language, c.name, flags, p.options)
			if len(p.examples) != 2 {
				t.Errorf("%s.txt: [%s] has %d examples", language, c.name, len(p.examples))
			}
			for _, example := range p.examples {
				words := regexp.MustCompile(`^(?:source <\()?delayer (.*?)(?:\)| [<>|] .*)?$`).FindStringSubmatch(example)
				if o, err := parse(shellWords(t, words[1])); err != nil || o.command == nil || o.command.name != c.name {
					t.Errorf("%s.txt: %s: %v", language, example, err)
				}
			}
		}
		if len(left) > 0 {
			t.Errorf("%s.txt: no command has %v", language, slices.Sorted(maps.Keys(left)))
		}
		listed := w.page()
		for _, first := range firstWords() {
			if !strings.Contains(listed, "\n  "+first+" ") && !regexp.MustCompile(`: .*\b`+first+`\b`).MatchString(listed) {
				t.Errorf("%s.txt: %s is in no group", language, first)
			}
		}
	}
}

func wantOptions(t *testing.T, language, name string, flags *flagSet, options []option) {
	t.Helper()
	var want, got []string
	flags.VisitAll(func(f *flag.Flag) { want = append(want, dashed(f.Name)) })
	for _, o := range options {
		names, value, _ := strings.Cut(o.flags, " ")
		for one := range strings.SplitSeq(names, "/") {
			got = append(got, one)
			if f := flags.Lookup(strings.TrimLeft(one, "-")); f == nil || isToggle(f) != (value == "") {
				t.Errorf("%s.txt: [%s] %s: another kind of option, or none", language, name, o.flags)
			}
		}
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%s.txt: [%s] has options %v, want %v", language, name, got, want)
	}
}

// In each language the help begins like the original's. The list of commands fits on a screen of 50 lines and 80 columns; a
// Chinese character takes two columns. The lines of all pages fit, too.
func TestHelpFitsTheScreen(t *testing.T) {
	for _, language := range []string{"en", "zh"} {
		w := readWords(language)
		if page := w.page(); !strings.HasPrefix(page, usageStart) || strings.Count(page, "\n") > 50 {
			t.Errorf("%s.txt: it begins otherwise, or has too many lines: %s", language, page)
		}
		pages := []string{strings.TrimPrefix(w.page(), usageStart), w.groupPage("dead"), w.groupPage("schedule")}
		for _, c := range listed() {
			pages = append(pages, w.commandPage(&c))
		}
		for _, page := range pages {
			for line := range strings.Lines(page) {
				width := 0
				for _, r := range strings.TrimSpace(line) {
					width++
					if r >= 0x2e80 {
						width++
					}
				}
				if width += len(line) - len(strings.TrimLeft(line, " ")); width > 80 {
					t.Errorf("%s.txt: %d columns: %s", language, width, line)
				}
			}
		}
	}
}

// LC_ALL overrides LC_MESSAGES, which overrides LANG.
func TestHelpSpeaksTheLanguageOfTheEnvironment(t *testing.T) {
	chinese := readWords("zh").page()
	for variables, want := range map[string]string{
		"": readWords("en").page(), "LANG=zh_CN.UTF-8": chinese, "LANG=C LC_MESSAGES=zh_TW": chinese, "LANG=zh_CN LC_MESSAGES=de_DE": readWords("en").page(),
		"LC_ALL=C LC_MESSAGES=zh_CN LANG=zh_CN": readWords("en").page(), "LC_ALL= LANG=zh_CN": chinese,
	} {
		if r := runBinary(t, t.TempDir(), environment(t, strings.Fields(variables)...), "help"); r != (result{stdout: want}) {
			t.Errorf("%s: %+v", variables, r)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, args := range [][]string{{"-v"}, {"--version"}, {"-d", "-v"}, {"version"}} {
		r := runBinary(t, t.TempDir(), environment(t), args...)
		if r != (result{stdout: "1.1.0\n"}) {
			t.Errorf("%v: %+v", args, r)
		}
	}
}

// Every wrong command line exits with 2 and prints, on stderr, a line that names the mistake and
// the synopsis.
func TestUsageErrors(t *testing.T) {
	for line, message := range map[string]string{
		"-x":                       "unknown option -x (an argument that begins with - goes behind --)",
		"--daemonize":              "unknown option --daemonize (an argument that begins with - goes behind --)",
		"-c":                       "-c needs a value",
		"-c=":                      `-c "": it is empty`,
		"-v=maybe":                 `-v "maybe": want true or false`,
		"start":                    `unknown command "start", did you mean stats?`,
		"-c a.conf b.conf":         `unknown command "b.conf"`,
		"--dev -d":                 "--dev runs in the foreground only: it keeps nothing, and would be forgotten in the background",
		"--check-config --dev":     "--check-config and --check-redis start nothing: leave out -d and --dev",
		"-d --check-config":        "--check-config and --check-redis start nothing: leave out -d and --dev",
		"--json":                   "--json and --quiet are for a command",
		"-c a -c b":                `-c "b": it was given before "a"`,
		"-c a --configuration=b":   `--configuration "b": it was given before "a"`,
		"-c a pop -c b topic":      `pop: -c "b": it was given before "a"`,
		"push --id 1 t 5 b --id 2": `push: --id "2": it was given before "1"`,
		"push --id= t 5 b":         `push: --id "": it is empty`,
		"help me":                  `help: unknown command "me"`,
		"help pop bpop":            `help: unexpected argument "bpop"`,
		"help dead list more":      `help: unexpected argument "more": want [COMMAND [SUBCOMMAND]]`,
		"help help me":             `help: unexpected argument "me"`,
		"version 2":                `version: unexpected argument "2": want none`,
		"-d pop topic":             "pop: -d, --dev, --check-config and --check-redis are for the daemon, not for a command",
		"--dev pop topic":          "pop: -d, --dev, --check-config and --check-redis are for the daemon, not for a command",
		"--check-config pop topic": "pop: -d, --dev, --check-config and --check-redis are for the daemon, not for a command",
		"pop":                      "pop: too few arguments: want TOPIC",
		"pop a b":                  `pop: unexpected argument "b": want TOPIC`,
		"pop --id 1 a":             "pop: unknown option --id (an argument that begins with - goes behind --)",
		"push a 5 -hello":          "push: unknown option --hello (an argument that begins with - goes behind --)",
		"push a 5 b --id":          "push: --id needs a value",
		"push a 5 b --ttr 25h":     `push: --ttr "25h": want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`,
		"push a 5 b --ttr 1e3":     `push: --ttr "1e3": want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`,
		"push a 5 b --ttr 0":       `push: --ttr "0": want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`,
		"push a 5 b --id 1 --once 1h --debounce 1m":    `push: --debounce: it does not go together with --once: want one of the two`,
		"push a 5 b --once 10m":                        `push: --once: it means nothing without --id`,
		"push a 5 b --id 1 --follow --once 1h":         `push: --follow: it does not go together with --once: want one of the two`,
		"push a 5 b --id 1 --follow --debounce 1h":     `push: --debounce: it does not go together with --follow: want one of the two`,
		"push a 5 b --follow":                          `push: --follow: it means nothing without --id`,
		"push a 5 b --debounce 1m":                     `push: --debounce: it means nothing without --id`,
		"push a 5 b --id 1 --once 0":                   `push: --once "0": want seconds, or a number with ms, s, m, h or d, above 0 and up to 100 years`,
		"push a 5 b --id 1 --debounce 101y":            `push: --debounce "101y": want seconds, or a number with ms, s, m, h or d, above 0 and up to 100 years`,
		"push a 0 b --group k":                         `push: --group: --quiet and --longest are missing: want one of the two, or both`,
		"push a 0 b --max 3":                           `push: --max: it means nothing without --group`,
		"push a 0 b --group k --quiet 1m --id a":       `push: --id: with --group it means nothing without --once`,
		"push a 0 b --group k --quiet 1m --debounce 1": `push: --debounce: it does not go together with --group: want one of the two`,
		"push a 5 b --replicas 101":                    `push: --replicas "101": want a number from 1 to 100`,
		"push a 5 b --replicas-timeout 1s":             `push: --replicas-timeout: it means nothing without --replicas`,
		"push a 5 b --replicas-timeout 11s":            `push: --replicas-timeout "11s": want seconds, or a number with ms, s, m, h or d, above 0 and up to 10s`,
		"push a 5 b --max-attempts 0":                  `push: --max-attempts "0": want a number from 1 to 2147483647`,
		"push a 5 b --max-attempts 2147483648":         `push: --max-attempts "2147483648": want a number from 1 to 2147483647`,
		"push a 5 b --max-attempts 1 --max-attempts 1": `push: --max-attempts "1": it was given before "1"`,
		"dead":                                      "dead is followed by list, groups, requeue, drop",
		"dead lst t":                                "dead is followed by list, groups, requeue, drop",
		"help dead lst":                             "help: dead is followed by list, groups, requeue, drop",
		"dead list":                                 "dead list: too few arguments: want TOPIC",
		"dead drop t 1 2":                           `dead drop: unexpected argument "2": want TOPIC [ID]`,
		"worker":                                    "worker: --topic is missing: whose jobs are to be handled?",
		"worker --topic t":                          "worker: what is to be run? want --exec CMD, or a program and its arguments behind the options",
		"worker --topic t --exec true -- true":      "worker: want either --exec CMD or a program and its arguments, not both",
		"worker --topic t --exec=":                  `worker: --exec "": it is empty`,
		"worker --topic= true":                      `worker: --topic "": a topic is empty: want TOPIC, or several with commas between them`,
		"worker --topic a,,b true":                  `worker: --topic "a,,b": a topic is empty: want TOPIC, or several with commas between them`,
		"worker --topic a,b --topic c,a true":       `worker: --topic "c,a": "a" was given before`,
		"worker --topic t --concurrency 0 true":     `worker: --concurrency "0": want a number from 1 to 250`,
		"worker --topic t --concurrency 251 true":   `worker: --concurrency "251": want a number from 1 to 250`,
		"worker --topic t --concurrency many true":  `worker: --concurrency "many": want a number from 1 to 250`,
		"worker --topic t --lease -1s true":         `worker: --lease "-1s": want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`,
		"worker --topic t --lease 24h1s true":       `worker: --lease "24h1s": want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`,
		"worker --topic t --lease NaN true":         `worker: --lease "NaN": want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`,
		"worker --topic t --lease 1 --lease 2 true": `worker: --lease "2": it was given before "1"`,
		"worker --topic t --timeout 0 true":         `worker: --timeout "0": want seconds, or a number with ms, s, m, h or d, above 0 and up to 100 years`,
		"worker --topic t --max-attempts 0 true":    `worker: --max-attempts "0": want a number from 1 to 2147483647`,
		"-d worker --topic t true":                  "worker: -d, --dev, --check-config and --check-redis are for the daemon, not for a command",
		"push a 5 b c --json":                       `push: unexpected argument "c": want TOPIC DELAY BODY`,
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			usage := readWords("en").usage(nil)
			if name, _, ofCommand := strings.Cut(message, ": "); ofCommand {
				if c, _ := findCommand(strings.Fields(name)); c != nil {
					usage = readWords("en").usage(c)
				}
			}
			want := result{stderr: "ERROR: " + message + "\n\n" + usage, code: exitUsage}
			if r := runBinary(t, t.TempDir(), environment(t), strings.Fields(line)...); r != want {
				t.Errorf("got %+v\nwant %+v", r, want)
			}
		})
	}
}

// shellWords splits a line like a shell that supports single quotes only.
func shellWords(t *testing.T, line string) (words []string) {
	t.Helper()
	parts := strings.Split(strings.TrimSpace(line), "'")
	if len(parts)%2 == 0 {
		t.Fatalf("a quote has no end: %s", line)
	}
	word, begun := "", false
	for i, part := range parts {
		if i%2 == 1 {
			word, begun = word+part, true
			continue
		}
		for j, plain := range strings.Split(part, " ") {
			if j > 0 && (begun || word != "") {
				words, word, begun = append(words, word), "", false
			}
			word += plain
		}
	}
	if begun || word != "" {
		words = append(words, word)
	}
	return words
}
