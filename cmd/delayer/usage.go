package main

import (
	"fmt"
	"strings"
)

// originalUsage is what the original prints, to the letter.
const originalUsage = `Usage: delayer [options]

Options:
-d/--daemon run in the background
-c/--configuration FILENAME -- configuration file path (searches if not given)
-h/--help -- print this usage message and exit
-v/--version -- print version number and exit
`

const furtherOptions = `
Further options:
--dev -- run on an in-memory Redis of its own, to try Delayer out; nothing is kept
--check-config -- check the configuration, and exit
`

const commandOptions = `-c/--configuration FILENAME -- configuration file path (searches if not given)
--json -- print JSON
-h/--help -- print this usage message and exit
`

const durations = "DELAY and TIMEOUT are in seconds, or have a unit: 0.5, 200ms, 30s, 5m, 1h30m, 2d.\n"

func usage() string {
	var b strings.Builder
	b.WriteString(originalUsage + furtherOptions)
	b.WriteString("\nCommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "delayer %s -- %s\n", c.synopsis(), c.help)
	}
	b.WriteString("delayer help [COMMAND] -- print this, or what there is to know of a command\n" +
		"delayer version -- print version number\n" +
		durations + "\nOptions of the commands, before or behind their arguments:\n" + commandOptions + "\nExit codes:\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "%d -- %s\n", e.code, e.meaning)
	}
	b.WriteString("A daemon that ended with 2, 3 or 4 needs a change, not another start.\n")
	return b.String()
}

func (c *command) usage() string {
	note := ""
	if strings.Contains(c.arguments, "DELAY") || strings.Contains(c.arguments, "TIMEOUT") {
		note = durations
	}
	synopsis := c.synopsis()
	if !c.program { // whose options stand in front of it
		synopsis += " [options]"
	}
	text := fmt.Sprintf("Usage: delayer %s\n\n%s\n%s\nOptions:\n%s%s", synopsis, c.help, note, c.options, commandOptions)
	if c.note != "" {
		text += "\n" + c.note
	}
	return text
}

func (c *command) synopsis() string {
	return strings.TrimSpace(c.name + " " + c.arguments)
}
