package store

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"iter"
	"slices"
	"strings"
	"sync"
)

//go:embed lua
var lua embed.FS

// script is a Lua script. A form of it is made when it is first run: a program has the texts of the few that it runs, and
// makes none when it starts.
type script struct {
	name                      string
	plain, inCluster, sharded func() *form
}

// form is a script's text and the hash that Redis knows it by.
type form struct{ text, hash string }

// on is the script as it runs in that store.
func (s *script) on(of *Store) *form {
	switch {
	case !of.isInCluster():
		return s.plain()
	case of.Sharded():
		return s.sharded()
	}
	return s.inCluster()
}

// newScript makes a script of lua/name.lua. If that begins with "-- require: a b", it stands behind
// lua/parts/a.lua and b.lua, and these behind what they require themselves. A second such line has what stands behind
// it do so: what returns before spares Redis the definitions that only the rest has a use for.
//
// A part has nothing but definitions, each of which begins with "local" at the left margin. Redis
// would make them anew in every call, so those that the script has no use for are left out.
//
// In the midst of a function a line "-- define: a" is replaced by what the rest of its block uses of a.lua, and by what that requires, though
// it may be defined outside as well: so what few calls need costs the others nothing, not even that it refers to anything of theirs.
// But for what "-- define: a with x y" names: that is defined outside, and takes longer to define than to refer to.
//
// Lines that begin with "-- cluster: " are code in a cluster only.
func newScript(name string) *script {
	return &script{
		name:      name,
		plain:     sync.OnceValue(func() *form { return formOf(textOf(name, false)) }),
		inCluster: sync.OnceValue(func() *form { return formOf(textOf(name, true)) }),
		sharded: sync.OnceValue(func() *form { // PUBLISH would go to all nodes
			return formOf(strings.ReplaceAll(textOf(name, true), "'PUBLISH'", "'SPUBLISH'"))
		}),
	}
}

func formOf(text string) *form {
	hash := sha1.Sum([]byte(text))
	return &form{text, hex.EncodeToString(hash[:])}
}

// textOf is a script's text.
func textOf(name string, inCluster bool) string {
	var text strings.Builder
	defined := map[string]bool{}
	for section := range sections(source(name, inCluster)) {
		code, required := parse(section)
		for _, d := range needed(code, required, inCluster, defined) {
			text.WriteString(defineWithin(d.code, inCluster))
		}
		text.WriteString(defineWithin(section, inCluster))
	}
	return text.String()
}

// needed are the definitions of the parts that the code uses, itself or by others of them, and that are not defined. They are then.
func needed(code string, parts []string, inCluster bool, defined map[string]bool) (list []definition) {
	used := map[string]bool{}
	for _, word := range mentioned(code, inCluster) {
		used[word] = true
	}
	for _, d := range slices.Backward(definitions(parts, inCluster, map[string]bool{})) {
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
func defineWithin(code string, inCluster bool) string {
	if !strings.Contains(code, define) {
		return code
	}
	var text strings.Builder
	lines := slices.Collect(strings.Lines(code))
	for i, line := range lines {
		list, _, ok := definedAt(line, lines[i+1:], inCluster)
		if !ok {
			text.WriteString(line)
		}
		for _, d := range list {
			text.WriteString(defineWithin(d.code, inCluster))
		}
	}
	return text.String()
}

// definedAt is what is to be defined where that line stands, if it says so, and the block behind it, which that is for.
func definedAt(line string, behind []string, inCluster bool) (list []definition, of []string, ok bool) {
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
	return needed(strings.Join(of, ""), strings.Fields(parts), inCluster, defined), of, true
}

// mentioned are the words of some code, but for those that are defined within it where they stand.
func mentioned(code string, inCluster bool) (list []string) {
	lines := slices.Collect(strings.Lines(code))
	for i := 0; i < len(lines); i++ {
		line, _, _ := strings.Cut(lines[i], "-- ")
		within, of, ok := definedAt(lines[i], lines[i+1:], inCluster)
		if !ok {
			list = append(list, words(line)...)
			continue
		}
		if _, given, ok := strings.Cut(lines[i], " with "); ok {
			list = append(list, words(given)...)
		}
		for _, word := range mentioned(strings.Join(of, ""), inCluster) {
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
func definitions(parts []string, inCluster bool, seen map[string]bool) (all []definition) {
	for _, name := range parts {
		if !seen[name] {
			seen[name] = true
			p := readPart(name, inCluster)
			all = append(append(all, definitions(p.required, inCluster, seen)...), p.definitions...)
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

// partsRead are the parts that were read before, by partKey: most scripts require the same few.
var partsRead sync.Map

type partKey struct {
	name      string
	inCluster bool
}

func readPart(name string, inCluster bool) part {
	key := partKey{name, inCluster}
	p, ok := partsRead.Load(key)
	if !ok {
		p, _ = partsRead.LoadOrStore(key, parsePart(name, inCluster))
	}
	return p.(part)
}

func parsePart(name string, inCluster bool) (p part) {
	code, required := parse(source("parts/"+name, inCluster))
	p.required = required
	for _, code := range strings.SplitAfter(code, "\nlocal ") {
		code = "local " + strings.TrimSuffix(strings.TrimPrefix(code, "local "), "local ")
		p.definitions = append(p.definitions, definition{defined(code), mentioned(code, inCluster), code})
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

// source is a file of lua/.
func source(name string, inCluster bool) string {
	file, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the name is a constant of this package
	}
	if inCluster {
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
