package cli

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/internal/exit"
)

// completeCommand is called by the scripts of runCompletion. It prints the completions of its last argument.
const completeCommand = "__complete"

var shells = []string{"bash", "zsh", "fish"}

func runCompletion(_ context.Context, c *call) (reply, error) {
	if !slices.Contains(shells, c.arguments[0]) {
		return reply{}, exit.With(exit.Usage, fmt.Errorf("completion %q: want one of %q", c.arguments[0], shells))
	}
	script, err := helpFiles.ReadFile("help/completion." + c.arguments[0])
	return reply{text: string(script), safe: true}, err
}

func runComplete(_ context.Context, c *call) (reply, error) {
	return reply{text: strings.Join(complete(c.arguments), "\n"), safe: true}, nil
}

// complete returns the completions of the last word, each followed by a tab and a description. Without completions,
// shells complete file names.
func complete(words []string) (list []string) {
	if len(words) == 0 {
		return nil
	}
	last := words[len(words)-1]
	c, named, isFree := readBefore(words[:len(words)-1])
	if !isFree {
		return nil
	}
	add := func(word, text string) {
		if strings.HasPrefix(word, last) {
			list = append(list, word+"\t"+text)
		}
	}
	w := inWords()
	switch {
	case strings.HasPrefix(last, "-"):
		options := slices.Concat(w.pages["common"].options, w.pages["daemon"].options)
		if c != nil {
			options = w.optionsOf(c)
		}
		for _, o := range options {
			name, _, _ := strings.Cut(o.flags, " ")
			add(name[strings.Index(name, "/")+1:], strings.Join(o.text, " "))
		}
	case c != nil && c.name == "completion":
		for _, shell := range shells {
			add(shell, "")
		}
	case c == nil || c.name == "help":
		first := strings.Join(slices.DeleteFunc(named, func(word string) bool { return word == "help" }), " ")
		for _, second := range subcommands(first) {
			add(second, w.say(first+" "+second))
		}
		for _, name := range firstWords() {
			if first == "" {
				add(name, w.say(name))
			}
		}
	}
	return list
}

// readBefore reads the words before the one to complete. It returns the command, if it is known yet, and all words
// except flags and their values. isFree is false if the next word is a flag's value, follows a --, or belongs to a
// program.
func readBefore(words []string) (c *command, named []string, isFree bool) {
	o := options{given: map[string]string{}}
	flags := o.daemonFlags()
	for i := 0; i < len(words); i++ {
		switch f := flags.Lookup(strings.TrimLeft(words[i], "-")); {
		case words[i] == "--":
			return c, named, false
		case !strings.HasPrefix(words[i], "-"):
			named = append(named, words[i])
			if found, _ := findCommand(named); found != nil && c == nil {
				c = found
				flags, _ = o.commandFlags(c)
			} else if c != nil && c.program {
				return c, named, false
			}
		case f != nil && !isToggle(f):
			if i++; i < len(words) && words[i] == "=" { // bash passes = as a separate word
				i++
			}
			if i >= len(words) {
				return c, named, false
			}
		}
	}
	return c, named, true
}

func isToggle(f *flag.Flag) bool {
	b, is := f.Value.(interface{ IsBoolFlag() bool })
	return is && b.IsBoolFlag()
}
