package cli

import (
	"embed"
	"os"
	"strings"
	"sync"
)

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
