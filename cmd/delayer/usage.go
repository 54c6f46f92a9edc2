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
`

const commandOptions = `-c/--configuration FILENAME -- configuration file path (searches if not given)
--json -- print JSON
-h/--help -- print this usage message and exit
`

func usage() string {
	var b strings.Builder
	b.WriteString(originalUsage + furtherOptions)
	b.WriteString("\nCommands:\n")
	for _, c := range commands() {
		fmt.Fprintf(&b, "delayer %s -- %s\n", c.synopsis(), c.help)
	}
	b.WriteString("\nOptions of the commands, before or behind their arguments:\n" + commandOptions)
	return b.String()
}

func (c *command) usage() string {
	return fmt.Sprintf("Usage: delayer %s [options]\n\n%s\n\nOptions:\n%s%s", c.synopsis(), c.help, c.options, commandOptions)
}

func (c *command) synopsis() string {
	return strings.TrimSpace(c.name + " " + c.arguments)
}
