package main

import (
	"cmp"
	"io/fs"
	"iter"
	"slices"
	"strings"
)

// linker puts scripts of one form together.
//
// A script that begins with "-- require: a b" is preceded by parts/a.lua and parts/b.lua, and these by what they require themselves. A second
// such line does the same for what follows it: a plain call that returns before it does not pay for those definitions.
//
// A part has only definitions, each of which begins with "local" at the left margin. Redis executes them in every call, so the linker leaves
// out those that the script does not use.
//
// Inside a function a line "-- define: a" is replaced by what the rest of its block uses of a.lua, and by what that requires, even if it is
// defined outside as well. So what few calls need costs the others nothing. "-- define: a with x y" leaves out x and y, which are defined
// outside already.
//
// Lines that begin with "-- cluster: " are code in a Redis Cluster only.
type linker struct {
	sources   fs.FS
	inCluster bool
	parts     map[string]part
	err       error
}

// link returns the text of a script.
func (l *linker) link(name string) string {
	var text strings.Builder
	defined := map[string]bool{}
	for section := range sections(l.source(name)) {
		code, required := parse(section)
		for _, d := range l.needed(code, required, defined) {
			text.WriteString(l.defineWithin(d.code))
		}
		text.WriteString(l.defineWithin(section))
	}
	return text.String()
}

// needed are the definitions of the parts that the code uses, itself or by others of them, and that are not defined. They are then.
func (l *linker) needed(code string, parts []string, defined map[string]bool) (list []definition) {
	used := map[string]bool{}
	for _, word := range l.mentioned(code) {
		used[word] = true
	}
	for _, d := range slices.Backward(l.definitions(parts, map[string]bool{})) {
		if !defined[d.names[0]] && slices.ContainsFunc(d.names, func(name string) bool { return used[name] }) {
			list = append(list, d)
			defined[d.names[0]] = true
			for _, word := range d.words {
				used[word] = true
			}
		}
	}
	slices.Reverse(list)
	return list
}

const define = "-- define: "

// defineWithin replaces the lines of some code that say what is to be defined there.
func (l *linker) defineWithin(code string) string {
	if !strings.Contains(code, define) {
		return code
	}
	var text strings.Builder
	lines := slices.Collect(strings.Lines(code))
	for i, line := range lines {
		list, _, ok := l.definedAt(line, lines[i+1:])
		if !ok {
			text.WriteString(line)
		}
		for _, d := range list {
			text.WriteString(l.defineWithin(d.code))
		}
	}
	return text.String()
}

// definedAt is what is to be defined where that line stands, if it says so, and the block behind it, which that is for.
func (l *linker) definedAt(line string, behind []string) (list []definition, of []string, ok bool) {
	indent, parts, ok := strings.Cut(line, define)
	if !ok || strings.TrimLeft(indent, " ") != "" {
		return nil, nil, false
	}
	parts, given, _ := strings.Cut(parts, " with ")
	defined := map[string]bool{}
	for _, name := range words(given) {
		defined[name] = true
	}
	of = block(behind, indent)
	return l.needed(strings.Join(of, ""), strings.Fields(parts), defined), of, true
}

// mentioned are the words of some code, but for those that are defined within it where they stand.
func (l *linker) mentioned(code string) (list []string) {
	lines := slices.Collect(strings.Lines(code))
	for i := 0; i < len(lines); i++ {
		line, _, _ := strings.Cut(lines[i], "-- ")
		within, of, ok := l.definedAt(lines[i], lines[i+1:])
		if !ok {
			list = append(list, words(line)...)
			continue
		}
		if _, given, ok := strings.Cut(lines[i], " with "); ok {
			list = append(list, words(given)...)
		}
		for _, word := range l.mentioned(strings.Join(of, "")) {
			if !slices.ContainsFunc(within, func(d definition) bool { return slices.Contains(d.names, word) }) {
				list = append(list, word)
			}
		}
		i += len(of)
	}
	return list
}

// block is the code of those lines up to the first that has less than that indentation.
func block(lines []string, indent string) []string {
	end := slices.IndexFunc(lines, func(line string) bool {
		return strings.TrimSpace(line) != "" && !strings.HasPrefix(line, indent)
	})
	if end < 0 {
		end = len(lines)
	}
	return lines[:end]
}

// sections are the parts of a script of which each begins with what it requires.
func sections(text string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for {
			end := strings.Index(text[1:], "\n"+require) + 2
			if end < 2 {
				yield(text)
				return
			}
			if !yield(text[:end]) {
				return
			}
			text = text[end:]
		}
	}
}

const require = "-- require: "

// definitions are those of the parts, behind those of the parts that these require, each once.
func (l *linker) definitions(parts []string, seen map[string]bool) (all []definition) {
	for _, name := range parts {
		if !seen[name] {
			seen[name] = true
			p := l.readPart(name)
			all = append(append(all, l.definitions(p.required, seen)...), p.definitions...)
		}
	}
	return all
}

type part struct {
	required    []string
	definitions []definition
}

type definition struct {
	names, words []string // what it defines, and all that it mentions
	code         string
}

func (l *linker) readPart(name string) part {
	p, known := l.parts[name]
	if !known {
		p = l.parsePart(name)
		l.parts[name] = p
	}
	return p
}

func (l *linker) parsePart(name string) (p part) {
	code, required := parse(l.source("parts/" + name))
	p.required = required
	for _, code := range strings.SplitAfter(code, "\nlocal ") {
		code = "local " + strings.TrimSuffix(strings.TrimPrefix(code, "local "), "local ")
		p.definitions = append(p.definitions, definition{defined(code), l.mentioned(code), code})
	}
	return p
}

// defined are the names that a definition gives.
func defined(code string) []string {
	if function, ok := strings.CutPrefix(code, "local function "); ok {
		return words(function)[:1]
	}
	names, _, _ := strings.Cut(code, "=")
	return words(names)[1:]
}

const clusterOnly = "-- cluster: "

// source is a source file as this form has it. The first error is kept.
func (l *linker) source(name string) string {
	file, err := fs.ReadFile(l.sources, name+".lua")
	l.err = cmp.Or(l.err, err)
	if l.inCluster {
		return strings.ReplaceAll(string(file), clusterOnly, "")
	}
	var text strings.Builder
	for line := range strings.Lines(string(file)) {
		if !strings.HasPrefix(strings.TrimLeft(line, " "), clusterOnly) {
			text.WriteString(line)
		}
	}
	return text.String()
}

// parse divides a file into its code, without comments, and the parts that it requires.
func parse(text string) (string, []string) {
	var code strings.Builder
	var required []string
	for line := range strings.Lines(text) {
		if parts, ok := strings.CutPrefix(line, require); ok {
			required = strings.Fields(parts)
		}
		if !strings.HasPrefix(strings.TrimLeft(line, " "), define) {
			line, _, _ = strings.Cut(line, "-- ")
		}
		if line = strings.TrimRight(line, " \n"); line != "" && line != "--" {
			code.WriteString(line + "\n")
		}
	}
	return code.String(), required
}

// words are the names, keywords and numbers of some code.
func words(code string) []string {
	return strings.FieldsFunc(code, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_'
	})
}
