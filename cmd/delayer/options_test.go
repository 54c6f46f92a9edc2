package main

import (
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

func TestHelp(t *testing.T) {
	for _, args := range [][]string{{"-h"}, {"--help"}, {"-help"}, {"help"}, {"-d", "-c", "nowhere", "-h"}} {
		r := runBinary(t, t.TempDir(), environment(t), args...)
		if !strings.HasPrefix(r.stdout, usageStart) || r.stderr != "" || r.code != 0 {
			t.Errorf("%v: %d, %q, %q", args, r.code, r.stdout, r.stderr)
		}
		for _, word := range []string{"--dev", "push TOPIC DELAY BODY", "pop TOPIC", "bpop TOPIC [TIMEOUT]", "remove ID", "get ID", "worker --topic T[,T...]", "dead list TOPIC", "dead requeue TOPIC [ID]", "dead drop TOPIC [ID]", "--json", "--check-config", "help [COMMAND]", "version", "200ms, 30s", "BODY of - reads standard input"} {
			if !strings.Contains(strings.TrimPrefix(r.stdout, usageStart), word) {
				t.Errorf("%v does not tell of %s:\n%s", args, word, r.stdout)
			}
		}
	}
}

func TestCommandHelp(t *testing.T) {
	for _, args := range [][]string{{"push", "-h"}, {"push", "topic", "--help", "5"}, {"help", "push"}} {
		r := runBinary(t, t.TempDir(), environment(t), args...)
		if !strings.HasPrefix(r.stdout, "Usage: delayer push TOPIC DELAY BODY") || !strings.Contains(r.stdout, "--id ID") || !strings.Contains(r.stdout, "200ms, 30s") || !strings.Contains(r.stdout, "BODY of - reads standard input") || r.stderr != "" || r.code != 0 {
			t.Errorf("%v: %d, %q, %q", args, r.code, r.stdout, r.stderr)
		}
	}
}

// All that can be run can be asked about, in each way that people try.
func TestHelpOnEverything(t *testing.T) {
	pages := map[string]string{ // the beginning
		"help":    "Usage: delayer help [COMMAND] -- print this, or what there is to know of a command\n",
		"version": "Usage: delayer version -- print version number\n",
		"dead":    "Usage: delayer dead COMMAND [options]\n\nCommands:\ndelayer dead list TOPIC -- list",
	}
	for _, c := range commands() {
		pages[c.name] = "Usage: delayer " + c.name + " " + c.arguments
	}
	for name, page := range pages {
		for _, line := range []string{"help " + name, name + " --help", name + " -h", name + " -help"} {
			o, err := parse(strings.Fields(line))
			if err != nil || !o.help || !strings.HasPrefix(o.page, page) {
				t.Errorf("delayer %s: %v, page %q, want %q", line, err, o.page, page)
			}
		}
	}
	for _, line := range []string{"-h", "--help", "help", "-h dead", "-c a --help push"} {
		if o, err := parse(strings.Fields(line)); err != nil || !o.help || o.page != usage() {
			t.Errorf("delayer %s: %v, page %q, want the general one", line, err, o.page)
		}
	}
	for _, args := range [][]string{{"help", "dead"}, {"dead", "--help"}} {
		r := runBinary(t, t.TempDir(), environment(t), args...)
		if want := groupUsage("dead"); r != (result{stdout: want}) || strings.Count(want, "\ndelayer dead ") != 3 {
			t.Errorf("%v: %+v", args, r)
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
	const commandUsage = "\nUsage: delayer "
	for _, test := range []struct {
		args  string
		first string
		usage string
	}{
		{"-x", "ERROR: flag provided but not defined: -x", usageStart},
		{"--daemonize", "ERROR: flag provided but not defined: -daemonize", usageStart},
		{"-c", "ERROR: flag needs an argument: -c", usageStart},
		{"-c=", `ERROR: invalid value "" for flag -c: want the path of a file`, usageStart},
		{"-v=maybe", `ERROR: invalid boolean value "maybe" for -v: parse error`, usageStart},
		{"start", `ERROR: unknown command "start"`, usageStart},
		{"-c a.conf b.conf", `ERROR: unknown command "b.conf"`, usageStart},
		{"--dev -d", "ERROR: --dev runs in the foreground only: it keeps nothing, and would be forgotten in the background", usageStart},
		{"--check-config --dev", "ERROR: --check-config and --check-redis start nothing: leave out -d and --dev", usageStart},
		{"-d --check-config", "ERROR: --check-config and --check-redis start nothing: leave out -d and --dev", usageStart},
		{"--json", "ERROR: --json is for a command", usageStart},
		{"-c a -c b", `ERROR: invalid value "b" for flag -c: "a" was given before`, usageStart},
		{"-c a --configuration=b", `ERROR: invalid value "b" for flag -configuration: "a" was given before`, usageStart},
		{"-c a pop -c b topic", `ERROR: pop: invalid value "b" for flag -c: "a" was given before`, commandUsage + "pop TOPIC"},
		{"push --id 1 t 5 b --id 2", `ERROR: push: invalid value "2" for flag -id: "1" was given before`, commandUsage + "push TOPIC"},
		{"push --id= t 5 b", `ERROR: push: invalid value "" for flag -id: want a job's ID`, commandUsage + "push TOPIC"},
		{"help me", `ERROR: unknown command "me"`, usageStart},
		{"help pop bpop", `ERROR: unexpected argument "bpop"`, usageStart},
		{"help dead list more", `ERROR: unexpected argument "more"`, usageStart},
		{"help help me", `ERROR: unexpected argument "me"`, usageStart},
		{"version 2", `ERROR: unexpected argument "2"`, usageStart},
		{"-d pop topic", "ERROR: pop: -d, --dev, --check-config and --check-redis are for the daemon, not for a command", commandUsage + "pop TOPIC"},
		{"--dev pop topic", "ERROR: pop: -d, --dev, --check-config and --check-redis are for the daemon, not for a command", commandUsage + "pop TOPIC"},
		{"--check-config pop topic", "ERROR: pop: -d, --dev, --check-config and --check-redis are for the daemon, not for a command", commandUsage + "pop TOPIC"},
		{"pop", "ERROR: pop: too few arguments: want TOPIC", commandUsage + "pop TOPIC"},
		{"pop a b", `ERROR: pop: unexpected argument "b": want TOPIC`, commandUsage + "pop TOPIC"},
		{"pop --id 1 a", "ERROR: pop: flag provided but not defined: -id (an argument that begins with - goes behind --)", commandUsage + "pop TOPIC"},
		{"push a 5 -hello", "ERROR: push: flag provided but not defined: -hello (an argument that begins with - goes behind --)", commandUsage + "push TOPIC"},
		{"push a 5 b --id", "ERROR: push: flag needs an argument: -id", commandUsage + "push TOPIC"},
		{"push a 5 b --ttr 25h", `ERROR: push: invalid value "25h" for flag -ttr: want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`, commandUsage + "push TOPIC"},
		{"push a 5 b --ttr 1e3", `ERROR: push: invalid value "1e3" for flag -ttr: want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`, commandUsage + "push TOPIC"},
		{"push a 5 b --ttr 0", `ERROR: push: invalid value "0" for flag -ttr: want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`, commandUsage + "push TOPIC"},
		{"push a 5 b --max-attempts 0", `ERROR: push: invalid value "0" for flag -max-attempts: want a number from 1 to 2147483647`, commandUsage + "push TOPIC"},
		{"push a 5 b --max-attempts 2147483648", `ERROR: push: invalid value "2147483648" for flag -max-attempts: want a number from 1 to 2147483647`, commandUsage + "push TOPIC"},
		{"push a 5 b --max-attempts 1 --max-attempts 1", `ERROR: push: invalid value "1" for flag -max-attempts: 1 was given before`, commandUsage + "push TOPIC"},
		{"dead", "ERROR: dead is followed by list, requeue, drop", usageStart},
		{"dead lst t", "ERROR: dead is followed by list, requeue, drop", usageStart},
		{"help dead lst", "ERROR: dead is followed by list, requeue, drop", usageStart},
		{"dead list", "ERROR: dead list: too few arguments: want TOPIC", commandUsage + "dead list TOPIC"},
		{"dead drop t 1 2", `ERROR: dead drop: unexpected argument "2": want TOPIC [ID]`, commandUsage + "dead drop TOPIC [ID]"},
		{"worker", "ERROR: worker: --topic is missing: whose jobs are to be handled?", commandUsage + "worker --topic"},
		{"worker --topic t", "ERROR: worker: what is to be run? want --exec CMD, or a program and its arguments behind the flags", commandUsage + "worker --topic"},
		{"worker --topic t --exec true -- true", "ERROR: worker: want either --exec CMD or a program and its arguments, not both", commandUsage + "worker --topic"},
		{"worker --topic t --exec=", `ERROR: worker: invalid value "" for flag -exec: want a command for the shell`, commandUsage + "worker --topic"},
		{"worker --topic= true", `ERROR: worker: invalid value "" for flag -topic: a topic is empty: want TOPIC, or several with commas between them`, commandUsage + "worker --topic"},
		{"worker --topic a,,b true", `ERROR: worker: invalid value "a,,b" for flag -topic: a topic is empty: want TOPIC, or several with commas between them`, commandUsage + "worker --topic"},
		{"worker --topic a,b --topic c,a true", `ERROR: worker: invalid value "c,a" for flag -topic: "a" was given before`, commandUsage + "worker --topic"},
		{"worker --topic t --concurrency 0 true", `ERROR: worker: invalid value "0" for flag -concurrency: want a number from 1 to 250`, commandUsage + "worker --topic"},
		{"worker --topic t --concurrency 251 true", `ERROR: worker: invalid value "251" for flag -concurrency: want a number from 1 to 250`, commandUsage + "worker --topic"},
		{"worker --topic t --concurrency many true", `ERROR: worker: invalid value "many" for flag -concurrency: want a number from 1 to 250`, commandUsage + "worker --topic"},
		{"worker --topic t --lease -1s true", `ERROR: worker: invalid value "-1s" for flag -lease: want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`, commandUsage + "worker --topic"},
		{"worker --topic t --lease 24h1s true", `ERROR: worker: invalid value "24h1s" for flag -lease: want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`, commandUsage + "worker --topic"},
		{"worker --topic t --lease NaN true", `ERROR: worker: invalid value "NaN" for flag -lease: want seconds, or a number with ms, s, m, h or d, above 0 and up to 24h`, commandUsage + "worker --topic"},
		{"worker --topic t --lease 1 --lease 2 true", `ERROR: worker: invalid value "2" for flag -lease: 1s was given before`, commandUsage + "worker --topic"},
		{"worker --topic t --timeout 0 true", `ERROR: worker: invalid value "0" for flag -timeout: want seconds, or a number with ms, s, m, h or d, above 0 and up to 100 years`, commandUsage + "worker --topic"},
		{"worker --topic t --max-attempts 0 true", `ERROR: worker: invalid value "0" for flag -max-attempts: want a number from 1 to 2147483647`, commandUsage + "worker --topic"},
		{"-d worker --topic t true", "ERROR: worker: -d, --dev, --check-config and --check-redis are for the daemon, not for a command", commandUsage + "worker --topic"},
		{"push a 5 b c --json", `ERROR: push: unexpected argument "c": want TOPIC DELAY BODY [--id ID]`, commandUsage + "push TOPIC"},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			r := runBinary(t, t.TempDir(), environment(t), strings.Fields(test.args)...)
			first, rest, _ := strings.Cut(r.stderr, "\n")
			if first != test.first || !strings.HasPrefix(strings.TrimPrefix(rest, "\n"), strings.TrimPrefix(test.usage, "\n")) || r.stdout != "" || r.code != 2 {
				t.Errorf("%d, stdout %q, stderr:\n%s", r.code, r.stdout, r.stderr)
			}
		})
	}
}
