package cli

import (
	"flag"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/testing/shelltest"
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
		"-h": w.page(), "--help": w.page(), "-help": w.page(), "-h dead": w.page(), "-c a --help push": w.page(),
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
		if o, err := parse(strings.Fields(line)); err != nil || !o.help || o.page != page {
			t.Errorf("delayer %s: %v, page %q, want %q", line, err, o.page, page)
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
		for _, name := range []string{"delayer", "usage", "options", "examples", "more", "more of", "commands", "durations", "codes", "exit codes", "exit codes of fsck", "exit codes of doctor", "exit codes of nagios", "daemon", "common", "dead", "schedule"} {
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
				if o, err := parse(shelltest.Words(t, words[1])); err != nil || o.command == nil || o.command.name != c.name {
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

// foreignFlags are flags of other programs.
var foreignFlags = []string{"--cluster", "--cluster-pipeline", "--latency", "--default_lua_flags", "--purge", "--rdb"}

// Commands and flags named within a line of a document exist. TestShellSamples runs the samples.
func TestNamedCommands(t *testing.T) {
	t.Parallel()
	codeSpan, flagOf, words := regexp.MustCompile("`([^`\n]+)`"), regexp.MustCompile(`--[a-z][a-z_-]*`), regexp.MustCompile(`^delayer((?: [a-z]+)+)`)
	flags := flagOf.FindAllString(shelltest.Read(t, "help/en.txt"), -1)
	helped := map[string]bool{} // whether a help page exists
	hasHelp := func(command string) bool {
		if _, known := helped[command]; !known {
			_, err := readWords("en").pageOn(strings.Fields(command))
			helped[command] = err == nil
		}
		return helped[command]
	}
	count := 0
	for _, pattern := range []string{"../../*.md", "../../docs/*.md"} {
		pages, err := filepath.Glob(pattern)
		redistest.Check(t, err)
		for _, page := range pages {
			if filepath.Base(page) == "CHANGELOG.md" {
				continue
			}
			for _, span := range codeSpan.FindAllStringSubmatch(shelltest.Read(t, page), -1) {
				if command := words.FindStringSubmatch(span[1]); command != nil {
					count++
					names := strings.Fields(command[1])
					if !hasHelp(names[0]) && !hasHelp(strings.Join(names[:min(2, len(names))], " ")) {
						t.Errorf("%s names %s: there is no such command", page, span[0])
					}
				}
				for _, flag := range flagOf.FindAllString(span[1], -1) {
					count++
					if !slices.Contains(flags, flag) && !slices.Contains(foreignFlags, flag) {
						t.Errorf("%s names %s in %s: no command has it", page, flag, span[0])
					}
				}
			}
		}
	}
	if count < 100 {
		t.Errorf("%d are named", count)
	}
}
