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
--check-config -- check the configuration and its paths, and exit
--check-redis -- the same, and whether Redis takes the server
`

const commandOptions = `-c/--configuration FILENAME -- configuration file path (searches if not given)
--json -- print JSON
-h/--help -- print this usage message and exit
`

const durations = "DELAY, TIMEOUT and D are in seconds, or have a unit: 0.5, 200ms, 30s, 5m, 1h30m, 2d.\n"

func usage() string {
	text := originalUsage + furtherOptions + "\nCommands:\n"
	for _, c := range commands() {
		text += c.line()
		for option := range strings.Lines(c.options) {
			text += "  " + option
		}
	}
	text += helpLine + versionLine + durations +
		"\nOptions of all commands, before or behind their arguments:\n" + commandOptions + "\nExit codes:\n"
	for _, e := range exitCodes {
		text += fmt.Sprintf("%d -- %s\n", e.code, e.meaning)
	}
	return text + "A daemon that ended with 2, 3 or 4 needs a change, not another start.\n"
}

const (
	helpLine    = "delayer help [COMMAND] -- print this, or what there is to know of a command\n"
	versionLine = "delayer version -- print version number\n"
)

// group are the commands of two words that begin with this one.
func group(word string) (list []command) {
	for _, c := range commands() {
		if strings.HasPrefix(c.name, word+" ") {
			list = append(list, c)
		}
	}
	return list
}

func groupUsage(word string) string {
	text := "Usage: delayer " + word + " COMMAND [options]\n\nCommands:\n"
	for _, c := range group(word) {
		text += c.line()
	}
	return text + "\nOptions:\n" + commandOptions
}

// line is what a list of commands says of it.
func (c *command) line() string { return "delayer " + c.synopsis() + " -- " + c.help + "\n" }

func (c *command) usage() string {
	note := ""
	if strings.Contains(c.arguments, "DELAY") || strings.Contains(c.arguments, "TIMEOUT") || strings.Contains(c.options, " D -- ") {
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
