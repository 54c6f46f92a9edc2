package store

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

//go:embed lua
var lua embed.FS

// script is a Lua script and the hash that Redis knows it by.
type script struct {
	name, text, hash string
	inCluster        *script // as it runs in a cluster, nil of that one itself
	sharded          *script // the same with SPUBLISH instead of PUBLISH, which goes to all nodes
}

// on is the script as it runs in that store.
func (s *script) on(of *Store) *script {
	switch {
	case s.inCluster == nil || !of.isInCluster():
		return s
	case of.Sharded():
		return s.sharded
	}
	return s.inCluster
}

// newScript makes a script of lua/name.lua. If that begins with "-- require: a b", it stands behind
// lua/parts/a.lua and b.lua, and these behind what they require themselves.
//
// A part has nothing but definitions, each of which begins with "local" at the left margin. Redis
// would make them anew in every call, so those that the script has no use for are left out.
//
// Lines that begin with "-- cluster: " are code in a cluster only.
func newScript(name string) *script {
	s := withHash(name, textOf(name, false))
	text := textOf(name, true)
	s.inCluster = withHash(name, text)
	s.sharded = withHash(name, strings.ReplaceAll(text, "'PUBLISH'", "'SPUBLISH'"))
	return s
}

func withHash(name, text string) *script {
	hash := sha1.Sum([]byte(text))
	return &script{name: name, text: text, hash: hex.EncodeToString(hash[:])}
}

// textOf is a script's text.
func textOf(name string, inCluster bool) string {
	text := source(name, inCluster)
	code, required := parse(text)
	used := map[string]bool{}
	for _, word := range words(code) {
		used[word] = true
	}
	for _, d := range slices.Backward(definitions(required, inCluster, map[string]bool{})) {
		if slices.ContainsFunc(d.names, func(name string) bool { return used[name] }) {
			text = d.code + text
			for _, word := range d.words {
				used[word] = true
			}
		}
	}
	return text
}

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

var partsRead = map[bool]map[string]part{false: {}, true: {}} // while the package's variables are made

func readPart(name string, inCluster bool) part {
	p, ok := partsRead[inCluster][name]
	if ok {
		return p
	}
	code, required := parse(source("parts/"+name, inCluster))
	p.required = required
	for _, code := range strings.SplitAfter(code, "\nlocal ") {
		code = "local " + strings.TrimSuffix(strings.TrimPrefix(code, "local "), "local ")
		p.definitions = append(p.definitions, definition{defined(code), words(code), code})
	}
	partsRead[inCluster][name] = p
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

var clusterLine = regexp.MustCompile(`(?m)^ *-- cluster: .*\n`)

// source is a file of lua/.
func source(name string, inCluster bool) string {
	text, err := lua.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(err) // the name is a constant of this package
	}
	if inCluster {
		return strings.ReplaceAll(string(text), "-- cluster: ", "")
	}
	return clusterLine.ReplaceAllLiteralString(string(text), "")
}

// parse divides a file into its code, without comments, and the parts that it requires.
func parse(text string) (string, []string) {
	var code strings.Builder
	var required []string
	for line := range strings.Lines(text) {
		if parts, ok := strings.CutPrefix(line, "-- require: "); ok {
			required = strings.Fields(parts)
		}
		line, _, _ = strings.Cut(line, "-- ")
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
