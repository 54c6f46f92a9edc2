package cli

import (
	"context"
	"embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/view"
)

// originalUsage is the original's help, verbatim, in any language.
const originalUsage = `Usage: delayer [options]

Options:
-d/--daemon run in the background
-c/--configuration FILENAME -- configuration file path (searches if not given)
-h/--help -- print this usage message and exit
-v/--version -- print version number and exit
`

// The columns where texts begin: next to options and two-word commands, and next to the commands of the first page.
const (
	helpColumn = 26
	listColumn = 14
)

func beginHelp(f *flagSet) action {
	var text string
	f.check = func(asked []string) (err error) {
		text, err = inWords().pageOn(asked)
		return err
	}
	return func(context.Context, *call) (reply, error) { return reply{text: text, safe: true}, nil }
}

// pageOn returns the help page of a command, of all commands that begin with a word, or of all
// commands.
func (w *words) pageOn(asked []string) (string, error) {
	c, rest := findCommand(asked)
	switch {
	case len(rest) > 0:
		return "", fmt.Errorf("unexpected argument %q", rest[0])
	case c != nil:
		return w.commandPage(c), nil
	case len(asked) == 0:
		return w.page(), nil
	case len(asked) == 1 && len(subcommands(asked[0])) > 0:
		return w.groupPage(asked[0]), nil
	}
	return "", unknownCommand(asked)
}

func runVersion(_ context.Context, c *call) (reply, error) {
	return reply{text: c.Version, json: view.Of("version", c.Version), safe: true}, nil
}

// page returns the help on the daemon and the list of all commands.
func (w *words) page() string {
	text := originalUsage + "\n" + w.say("daemon") + "\n" + w.optionList(w.pages["daemon"].options) + "\n" + w.say("commands") + "\n"
	for _, g := range w.groups {
		if strings.HasSuffix(g.title, ":") {
			text += g.title + " " + strings.Join(g.names, ", ") + "\n"
			continue
		}
		text += g.title + "\n"
		for _, name := range g.names {
			if !strings.Contains(name, " ") {
				text += columns("  "+name, listColumn, w.say(name))
			}
		}
	}
	return text + w.text("codes")
}

// groupPage returns the help on the commands that begin with a word.
func (w *words) groupPage(first string) string {
	text := w.usageLine(first+" COMMAND [options]") + "\n" + w.say(first) + "\n\n" + w.say("commands") + "\n"
	for _, second := range subcommands(first) {
		text += columns("  "+first+" "+second, helpColumn, w.say(first+" "+second))
	}
	return text
}

func (w *words) commandPage(c *command) string {
	p := w.pages[c.name]
	text := w.usageLine(c.synopsis()) + "\n" + p.summary + "\n"
	if p.text != "" {
		text += "\n" + p.text
	}
	if c.takesDurations(p) {
		text += "\n" + w.text("durations")
	}
	if options := w.optionsOf(c); len(options) > 0 {
		text += "\n" + w.say("options") + "\n" + w.optionList(options)
	}
	if len(p.examples) > 0 {
		text += "\n" + w.say("examples") + "\n"
		for _, example := range p.examples {
			text += "  " + example + "\n"
		}
	}
	text += "\n" + w.say("exit codes") + "\n"
	for _, e := range w.exitCodes(c) {
		text += fmt.Sprintf("%3d %s\n", e.code, e.meaning)
	}
	return text
}

// usage returns the lines that follow an error: the usage of the command, or of the daemon if c is
// nil.
func (w *words) usage(c *command) string {
	if c == nil {
		return w.usageLine("[options]") + w.say("more") + "\n"
	}
	return w.usageLine(c.synopsis()) + fmt.Sprintf(w.say("more of")+"\n", c.name)
}

func (w *words) usageLine(synopsis string) string { return fmt.Sprintf(w.say("usage")+"\n", synopsis) }

// synopsis returns the command's name, options and arguments.
func (c *command) synopsis() string {
	text := strings.TrimSpace(c.name + " " + c.arguments)
	if !c.program { // a program's options come first
		text += " [options]"
	}
	return text
}

// optionsOf returns the command's own options, and the options of all commands that need Redis.
func (w *words) optionsOf(c *command) []option {
	common := w.pages["common"].options
	if c.local {
		common = common[len(common)-1:] // -h
	}
	own := w.pages[c.name].options
	common = slices.DeleteFunc(slices.Clone(common), func(o option) bool { // push has its own --quiet
		return slices.ContainsFunc(own, func(same option) bool { return strings.HasPrefix(same.flags, o.flags+" ") })
	})
	return slices.Concat(own, common)
}

func (w *words) optionList(options []option) (text string) {
	for _, o := range options {
		text += columns("  "+o.flags, helpColumn, o.text...)
	}
	return text
}

// columns returns the lines next to a name, or below a name that is too long.
func columns(name string, column int, lines ...string) (text string) {
	if len(name) > column-2 {
		text, name = name+"\n", ""
	}
	for _, line := range lines {
		text += fmt.Sprintf("%-*s%s\n", column, name, line)
		name = ""
	}
	return text
}

// takesDurations reports whether the help must explain the format of durations.
func (c *command) takesDurations(p *page) bool {
	return strings.Contains(c.arguments, "DELAY") || strings.Contains(c.arguments, "TIMEOUT") ||
		slices.ContainsFunc(p.options, func(o option) bool { return strings.HasSuffix(o.flags, " D") })
}

// exitCode is an exit code and its meaning.
type exitCode struct {
	code    int
	meaning string
}

// exitCodes returns the exit codes of a command, or of the daemon and all commands if c is nil. Some commands have
// a separate page of exit codes.
func (w *words) exitCodes(c *command) (list []exitCode) {
	own, page := false, w.pages["exit codes"]
	if c != nil && w.pages["exit codes of "+c.name] != nil {
		own, page = true, w.pages["exit codes of "+c.name]
	}
	for line := range strings.Lines(page.text) {
		var e exitCode
		code, meaning, _ := strings.Cut(strings.TrimSpace(line), " ")
		fmt.Sscan(code, &e.code)
		e.meaning = meaning
		switch {
		case c == nil, own:
		case e.code == exit.Running, e.code == exit.Nothing && !c.nothing:
			continue
		case c.local && !slices.Contains([]int{exit.Done, exit.Usage, exit.Output}, e.code):
			continue
		}
		list = append(list, e)
	}
	return list
}

// words holds the help texts in one language, read from a file in folder help:
//
//	# TITLE        begins a group of commands; their names are on one line if it ends with a colon
//	[NAME]         begins the page of a command, or a text of another name
//	first line     summary
//	more lines     text
//	--flag VALUE   an option, with a text of indented lines
//	$ delayer …    an example
type words struct {
	groups []group
	pages  map[string]*page
}

type group struct {
	title string
	names []string // names of pages
}

type page struct {
	summary  string
	text     string // of whole lines
	options  []option
	examples []string
}

type option struct {
	flags string // with the value's name
	text  []string
}

//go:embed help
var helpFiles embed.FS

// inWords returns the texts in the language of the environment: Chinese, otherwise English.
var inWords = sync.OnceValue(func() *words {
	for _, variable := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		if value := os.Getenv(variable); value != "" {
			if strings.HasPrefix(value, "zh") {
				return readWords("zh")
			}
			break
		}
	}
	return readWords("en")
})

func readWords(language string) *words {
	text, err := helpFiles.ReadFile("help/" + language + ".txt")
	if err != nil {
		panic(err) // embedded in the program
	}
	w := &words{pages: map[string]*page{}}
	var p *page
	for line := range strings.SplitSeq(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n") {
		if title, is := strings.CutPrefix(line, "# "); is {
			w.groups = append(w.groups, group{title: title})
		} else if name, is := strings.CutPrefix(line, "["); is {
			p = new(page)
			name = strings.TrimSuffix(name, "]")
			w.pages[name] = p
			if last := len(w.groups) - 1; last >= 0 {
				w.groups[last].names = append(w.groups[last].names, name)
			}
		} else if p != nil {
			p.add(line)
		}
	}
	for _, p := range w.pages {
		p.text = strings.Trim(p.text, "\n")
		if p.text != "" {
			p.text += "\n"
		}
	}
	return w
}

func (p *page) add(line string) {
	last := len(p.options) - 1
	switch {
	case strings.HasPrefix(line, "-"):
		p.options = append(p.options, option{flags: line})
	case strings.HasPrefix(line, "    ") && last >= 0:
		p.options[last].text = append(p.options[last].text, strings.TrimSpace(line))
	case strings.HasPrefix(line, "$ "):
		p.examples = append(p.examples, line[2:])
	case p.summary == "":
		p.summary = line
	default:
		p.text += line + "\n"
	}
}

// text returns a text of several lines.
func (w *words) text(name string) string { return w.pages[name].summary + "\n" + w.pages[name].text }

// say returns a text of one line.
func (w *words) say(name string) string { return w.pages[name].summary }
