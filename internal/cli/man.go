package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/exit"
)

// runMan prints a manual page as troff source with man macros.
func runMan(_ context.Context, c *call) (reply, error) {
	switch {
	case len(c.arguments) == 0 || c.arguments[0] == "delayer":
		return reply{text: inWords().manual(c.Version), safe: true}, nil
	case c.arguments[0] == "delayer.conf":
		return reply{text: configurationManual(c.Version), safe: true}, nil
	}
	return reply{}, exit.With(exit.Usage, fmt.Errorf("man %q: want delayer or delayer.conf", c.arguments[0]))
}

// roff builds a manual page.
type roff struct{ strings.Builder }

func newManual(version, title, section, summary string) *roff {
	m := new(roff)
	fmt.Fprintf(m, ".TH %s %s \"\" \"delayer %s\"\n", strings.ToUpper(title), section, version)
	m.section("NAME")
	m.WriteString(escaped(title+" - "+summary) + "\n")
	return m
}

func (m *roff) section(title string)    { fmt.Fprintf(m, ".SH \"%s\"\n", escaped(title)) }
func (m *roff) subsection(title string) { fmt.Fprintf(m, ".SS \"%s\"\n", escaped(title)) }

// entry adds a name and its text.
func (m *roff) entry(name, text string) {
	fmt.Fprintf(m, ".TP\n\\fB%s\\fR\n%s\n", escaped(name), escaped(text))
}

// plain adds text that is filled. An empty line begins a new paragraph.
func (m *roff) plain(text string) {
	m.WriteString(".PP\n")
	for line := range strings.Lines(strings.TrimSpace(text)) {
		if line == "\n" {
			line = ".PP\n"
		} else {
			line = escaped(line)
		}
		m.WriteString(line)
	}
	m.WriteString("\n")
}

// asItIs adds lines that are not filled.
func (m *roff) asItIs(lines ...string) {
	fmt.Fprintf(m, ".PP\n.nf\n%s\n.fi\n", escaped(strings.Join(lines, "\n")))
}

// escaped returns text without troff markup.
func escaped(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, `"`, `\(dq`, "'", `\(aq`).Replace(text)
	return strings.ReplaceAll("\n"+text, "\n.", "\n\\&.")[1:]
}

// manual returns delayer(1), the help of all commands.
func (w *words) manual(version string) string {
	m := newManual(version, "delayer", "1", w.say("delayer"))
	m.section("SYNOPSIS")
	m.plain("delayer [options]\n\ndelayer COMMAND [options]")
	m.section("OPTIONS")
	m.asItIs(strings.Split(strings.TrimSpace(originalUsage[strings.Index(originalUsage, "-d/"):]), "\n")...)
	m.options(w.pages["daemon"].options)
	m.section("COMMANDS")
	m.plain(w.say("common"))
	m.options(w.pages["common"].options)
	m.plain(w.text("durations"))
	for _, g := range w.groups {
		for _, name := range g.names {
			if c, _ := findCommand(strings.Fields(name)); c != nil {
				m.subsection("delayer " + strings.TrimSpace(name+" "+c.arguments))
				m.page(w.pages[name])
			}
		}
	}
	m.section("EXIT STATUS")
	for _, e := range w.exitCodes(nil) {
		m.entry(fmt.Sprint(e.code), e.meaning)
	}
	m.section("SEE ALSO")
	m.plain("delayer.conf(5), redis-server(1)")
	return m.String()
}

func (m *roff) page(p *page) {
	m.plain(p.summary)
	if p.text != "" {
		m.plain(p.text)
	}
	m.options(p.options)
	m.asItIs(p.examples...)
}

func (m *roff) options(list []option) {
	for _, o := range list {
		m.entry(o.flags, strings.Join(o.text, " "))
	}
}

// configurationManual returns delayer.conf(5), the keys of package config.
func configurationManual(version string) string {
	m := newManual(version, "delayer.conf", "5", "configuration of the delayer daemon and its commands")
	m.section("DESCRIPTION")
	m.plain("The file has sections and keys: key = value. A # or a ; begins a comment; a value that holds one goes in double quotes. " +
		"What the file leaves out has the default shown here. The environment goes before the file: DELAYER_PID sets pid, " +
		"DELAYER_REDIS_HOST sets host of [redis], DELAYER_HTTP_LISTEN sets listen of [http]. DELAYER_REDIS_URL goes before all that says " +
		"where Redis is, and the option --redis before that.")
	section := ""
	for _, k := range config.Keys() {
		if k.Section != section {
			section = k.Section
			m.section("[" + section + "]")
		}
		m.entry(k.Name+" = "+k.Default, k.About)
	}
	m.section("SEE ALSO")
	m.plain("delayer(1)")
	return m.String()
}
