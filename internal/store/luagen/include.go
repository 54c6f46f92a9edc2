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

// includer puts the scripts of one form together.
//
// A file in parts has only definitions, each of which begins with "local" at the left margin. A script, or another definition,
// includes what it uses with a line in front of that:
//
//	-- include: time: now; queue: wake pass_on
//
// includes now of the part time, and wake and pass_on of the part queue. It holds to the end of the block that it stands in, and
// leaves out what is defined there already. Redis executes definitions in every call: what few calls need is included in the branch
// that needs it, or behind the return of the others.
//
// Three kinds of names need no include: those of Go, which are the parts keys and go; in a part the other definitions of it; and what
// the comment at the head of a part includes, for all of its definitions. They are defined in front of the script, or of the
// definition, that uses them.
//
// Lines that begin with "-- cluster: " are code in a Redis Cluster only, and so are the definitions of the part cluster.
type includer struct {
	sources   fs.FS
	inCluster bool
	parts     map[string]map[string]*definition // by part and name
	ofGo      []name                            // what needs no include anywhere
	errs      []error
}

// definition is what an include takes.
type definition struct {
	part       string
	names      []string
	first      int      // line
	lines      []string // comments are blank
	needs      []name   // beside what its lines include
	isIncluded bool
}

// name is that of a definition, with its part.
type name struct{ part, name string }

// newIncluder reads all parts; those of written are texts.
func newIncluder(sources fs.FS, written map[string]string, inCluster bool) *includer {
	g := &includer{sources: sources, inCluster: inCluster, parts: map[string]map[string]*definition{}}
	heads := map[string][]name{}
	for part, text := range written {
		g.readPart(part, strings.Split(text, "\n"))
		g.ofGo = append(g.ofGo, g.namesOf(part)...)
	}
	files, err := fs.Glob(sources, "parts/*.lua")
	g.fail(err)
	for _, file := range files {
		if part := strings.TrimSuffix(path.Base(file), ".lua"); inCluster || part != "cluster" {
			heads[part] = g.readPart(part, g.read(file))
		}
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

// readPart divides a part into definitions, each with the includes in front of it. It returns what its head includes.
func (g *includer) readPart(part string, lines []string) (head []name) {
	g.parts[part] = map[string]*definition{}
	d := &definition{}       // what stands before the first one
	isHead := lines[0] != "" // until the first blank line
	for i, line := range lines {
		indent, included := g.parseInclude(line, part)
		names := definedNames.FindStringSubmatch(line)
		isHead = isHead && strings.HasPrefix(line, "--")
		if isHead && slices.Contains(lines, "") {
			head = append(head, included...)
			continue
		}
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
func (g *includer) findNeeds(part string, head []name) {
	file, used := "parts/"+part+".lua", map[name]bool{}
	known := slices.Concat(head, g.namesOf(part), g.ofGo)
	for _, n := range g.namesOf(part) {
		d := g.parts[part][n.name]
		if n.name != d.names[0] {
			continue
		}
		d.needs = g.needs(source{file, d.first, part, d.lines, known})
		for _, n := range d.needs {
			used[n] = true
		}
	}
	for _, n := range head {
		if g.exists(n, file, 1) && !used[n] {
			g.fail(fmt.Errorf("%s:1: includes %s, and does not use it", file, n.name))
		}
	}
}

// script returns the text of a script.
func (g *includer) script(file string) string {
	var text strings.Builder
	lines := g.read(file)
	needed := g.needs(source{file, 1, "", lines, g.ofGo})
	code := max(slices.IndexFunc(lines, func(line string) bool {
		return line != "" && !strings.HasPrefix(line, "--") || strings.HasPrefix(line, "-- include: ")
	}), 0)
	defined := map[*definition]bool{}
	g.write(&text, lines[:code], "", "", "", defined)
	g.define(&text, needed, "", defined)
	g.write(&text, lines[code:], "", "", "", defined)
	return text.String()
}

// write writes a block of a part, or of a script, with what it includes beyond what is defined already.
func (g *includer) write(text *strings.Builder, lines []string, part, margin, indent string, defined map[*definition]bool) {
	for i := 0; i < len(lines); i++ {
		within, names := g.parseInclude(lines[i], part)
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

// parseInclude returns what a line includes, nil if it is code, and how it is indented.
func (g *includer) parseInclude(line, part string) (indent string, names []name) {
	indent, list, ok := strings.Cut(line, "-- include: ")
	if !ok {
		return "", nil
	}
	names = []name{}
	for group := range strings.SplitSeq(list, "; ") {
		from, of, ok := strings.Cut(group, ": ")
		if !ok {
			from, of = part, group
		}
		if from == "cluster" && !g.inCluster {
			continue
		}
		for n := range strings.FieldsSeq(of) {
			names = append(names, name{from, n})
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

// read returns the lines of a file as this form has them. Those of the other one are blank.
func (g *includer) read(file string) []string {
	text, err := fs.ReadFile(g.sources, file)
	g.fail(err)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	for i, line := range lines {
		if before, code, ok := strings.Cut(line, "-- cluster: "); ok {
			lines[i] = ""
			if g.inCluster {
				lines[i] = before + code
			}
		}
	}
	return lines
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
