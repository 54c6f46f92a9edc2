package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// includer puts the scripts together.
//
// A file in parts has only definitions, each of which begins with "local" at the left margin. A script, or another part, says at its
// head which parts it uses, like imports:
//
//	-- include: time queue
//
// Each script gets what it uses of these parts, and what that uses, in front of its first line of code. Redis executes definitions in
// every call: so what few calls need is included where they need it, in a branch, or behind the return of the others:
//
//	-- include: time: now; queue: wake pass_on
//
// includes now of the part time, and wake and pass_on of the part queue, to the end of its block. Nothing is defined
// again that is defined there already.
//
// The names of Go need no include, which are the parts keys and go, nor do the other definitions of the same part.
type includer struct {
	sources fs.FS
	parts   map[string]map[string]*definition // by part and name
	ofGo    []name                            // what needs no include anywhere
	errs    []error
}

// definition is what an include takes.
type definition struct {
	part       string
	names      []string
	first      int      // line
	lines      []string // comments are blank
	needs      []name   // besides what its lines include
	isIncluded bool
}

// name is the name of a definition and its part.
type name struct{ part, name string }

// newIncluder reads all parts; those of written are texts.
func newIncluder(sources fs.FS, written map[string]string) *includer {
	g := &includer{sources: sources, parts: map[string]map[string]*definition{}}
	heads := map[string][]string{}
	for part, text := range written {
		g.readPart(part, strings.Split(text, "\n"))
		g.ofGo = append(g.ofGo, g.namesOf(part)...)
	}
	files, err := fs.Glob(sources, "parts/*.lua")
	g.fail(err)
	for _, file := range files {
		part := strings.TrimSuffix(path.Base(file), ".lua")
		heads[part] = g.readPart(part, g.read(file))
	}
	for _, part := range slices.Sorted(maps.Keys(g.parts)) {
		g.findNeeds(part, heads[part])
	}
	return g
}

// namesOf are all names that a part defines.
func (g *includer) namesOf(part string) (names []name) {
	for _, n := range slices.Sorted(maps.Keys(g.parts[part])) {
		names = append(names, name{part, n})
	}
	return names
}

var definedNames = regexp.MustCompile(`^local (?:function (\w+)|([\w, ]+\w))`)

// readPart divides a part into definitions, each with the includes in front of it. It returns the parts that its head includes.
func (g *includer) readPart(part string, lines []string) (head []string) {
	g.parts[part] = map[string]*definition{}
	d := &definition{} // what stands before the first one
	for i, line := range lines {
		if parts := parseHead(line); parts != nil {
			head, line = append(head, parts...), ""
		}
		indent, included := parseInclude(line)
		names := definedNames.FindStringSubmatch(line)
		if (included != nil && indent == "" || names != nil) && (d.part == "" || d.names != nil) {
			d = &definition{part: part, first: i + 1}
		}
		if names != nil {
			d.names = strings.Split(cmp.Or(names[1], names[2]), ", ")
			for _, name := range d.names {
				g.parts[part][name] = d
			}
		}
		if included == nil {
			line, _, _ = strings.Cut(line, "-- ")
		}
		d.lines = append(d.lines, strings.TrimRight(line, " "))
	}
	return head
}

// findNeeds finds out what each definition of a part needs.
func (g *includer) findNeeds(part string, head []string) {
	file := "parts/" + part + ".lua"
	known, used := slices.Concat(g.namesOf(part), g.known(head)), []name{}
	for _, n := range g.namesOf(part) {
		if d := g.parts[part][n.name]; n.name == d.names[0] {
			d.needs = g.needs(source{file, d.first, d.lines, known})
			used = append(used, d.needs...)
		}
	}
	g.checkHead(file, head, used)
}

// known are the names that need no further include behind a head that includes these parts.
func (g *includer) known(head []string) []name {
	known := slices.Clone(g.ofGo)
	for _, part := range head {
		known = append(known, g.namesOf(part)...)
	}
	return known
}

// checkHead fails where a head includes a part that there is not, or that is not used.
func (g *includer) checkHead(file string, head []string, used []name) {
	for _, part := range head {
		switch {
		case g.parts[part] == nil:
			g.fail(fmt.Errorf("%s: includes %s: there is no parts/%s.lua", file, part, part))
		case !slices.ContainsFunc(used, func(n name) bool { return n.part == part }):
			g.fail(fmt.Errorf("%s: includes %s, and does not use it", file, part))
		}
	}
}

// script returns the text of a script. Of the comment at its head only the first paragraph, its purpose, is repeated.
func (g *includer) script(file string) string {
	var text strings.Builder
	var head []string
	lines := g.read(file)
	code := -1
	for i, line := range lines {
		parts := parseHead(line)
		head = append(head, parts...)
		if code < 0 && (parts != nil || line != "" && !strings.HasPrefix(line, "--")) {
			code = i
		}
	}
	needed := g.needs(source{file, 1, lines, g.known(head)})
	g.checkHead(file, head, needed)
	defined := map[*definition]bool{}
	purpose := slices.Index(append(slices.Clip(lines[:code]), "--"), "--")
	g.write(&text, lines[:purpose], "", "", "", defined)
	g.define(&text, needed, "", defined)
	g.write(&text, lines[code:], "", "", "", defined)
	return text.String()
}

// write writes a block of a part, or of a script, with what it includes beyond what is defined already.
func (g *includer) write(text *strings.Builder, lines []string, part, margin, indent string, defined map[*definition]bool) {
	for i := 0; i < len(lines); i++ {
		within, names := parseInclude(lines[i])
		switch {
		case names == nil && (lines[i] != "" || part == ""):
			text.WriteString(strings.TrimRight(margin+lines[i], " ") + "\n")
		case names != nil && within != indent:
			end := i + blockEnd(lines[i:], within)
			g.write(text, lines[i:end], part, margin, within, maps.Clone(defined))
			i = end - 1
		case names != nil:
			g.define(text, names, margin+indent, defined)
		}
	}
}

// define writes the definitions of some names, each behind what it needs, beyond what is defined already.
func (g *includer) define(text *strings.Builder, names []name, margin string, defined map[*definition]bool) {
	for _, name := range names {
		if d := g.parts[name.part][name.name]; d != nil && !defined[d] {
			defined[d], d.isIncluded = true, true
			g.define(text, d.needs, margin, defined)
			g.write(text, d.lines, d.part, margin, "", defined)
		}
	}
}

const includes = "-- include: "

// parseHead returns the parts that a line at the head of a file includes, nil if it is no such line.
func parseHead(line string) []string {
	list, ok := strings.CutPrefix(line, includes)
	if !ok || strings.Contains(list, ":") {
		return nil
	}
	return strings.Fields(list)
}

// parseInclude returns the names that a line includes, nil if it is code, and how it is indented.
func parseInclude(line string) (indent string, names []name) {
	indent, list, ok := strings.Cut(line, includes)
	if !ok {
		return "", nil
	}
	names = []name{}
	for group := range strings.SplitSeq(list, "; ") {
		part, of, _ := strings.Cut(group, ": ")
		for n := range strings.FieldsSeq(of) {
			names = append(names, name{part, n})
		}
	}
	return indent, names
}

// blockEnd is where the first line stands that is indented by less, or the end.
func blockEnd(lines []string, indent string) int {
	end := slices.IndexFunc(lines, func(line string) bool { return line != "" && !strings.HasPrefix(line, indent) })
	if end < 0 {
		return len(lines)
	}
	return end
}

// read returns the lines of a file.
func (g *includer) read(file string) []string {
	text, err := fs.ReadFile(g.sources, file)
	g.fail(err)
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
}

func (g *includer) fail(err error) {
	if err != nil {
		g.errs = append(g.errs, err)
	}
}

// err is everything that is wrong, when all scripts are put together.
func (g *includer) err() error {
	for part, definitions := range g.parts {
		for name, d := range definitions {
			if name == d.names[0] && !d.isIncluded {
				g.fail(fmt.Errorf("parts/%s.lua:%d: nothing includes %s", part, d.first, name))
			}
		}
	}
	return errors.Join(g.sorted()...)
}

func (g *includer) sorted() []error {
	slices.SortFunc(g.errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return g.errs
}
