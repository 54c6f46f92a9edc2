package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// builtin needs no include.
var builtin = strings.Fields("redis KEYS ARGV math string table tonumber type ipairs pairs unpack next rawget _G")

// shared is the part with what all scopes of a call share: whoever includes its users in a loop includes it outside, without using it.
const shared = "call"

// source is some code of a file: a script, or a definition of a part.
type source struct {
	file  string
	first int // line
	lines []string
	known []name // what it may use without including it itself
}

// refused are the calls that no script may have, with the reason.
var refused = []struct {
	call *regexp.Regexp
	why  string
}{
	{regexp.MustCompile(`\bp?call\([^']`), "the command is no literal text, which Redis behind some proxies refuses"},
	{regexp.MustCompile(`\bformat\('[^']*%[sq]`), "Lua's %s ends at a zero byte, which topics and IDs may have: use .."},
}

// needs returns which of the names that the code knows it uses without including them. It fails where the code uses what it
// neither knows nor includes, or includes what it does not use. The compiler takes what is included for a global variable, as it is
// not defined in the same code.
func (g *includer) needs(s source) (needed []name) {
	chunk, err := parse.Parse(strings.NewReader(strings.Join(s.lines, "\n")+"\n"), s.file)
	if err != nil {
		g.fail(err)
		return nil
	}
	for i, line := range s.lines {
		code, _, _ := strings.Cut(line, "-- ")
		for _, r := range refused {
			if r.call.MatchString(code) {
				g.fail(fmt.Errorf("%s:%d: %s", s.file, s.first+i, r.why))
			}
		}
	}
	function, err := lua.Compile(chunk, s.file)
	if err != nil {
		g.fail(err)
		return nil
	}
	used := make([][]string, len(s.lines)) // by line
	globals(function, used)
	included := make([][]string, len(s.lines))
	for i, line := range s.lines {
		indent, names := parseInclude(line)
		for _, name := range names {
			isUsed := false
			for k := i; k < i+blockEnd(s.lines[i:], indent); k++ {
				isUsed = isUsed || slices.Contains(used[k], name.name)
				included[k] = append(included[k], name.name)
			}
			if g.exists(name, s.file, s.first+i) && !isUsed && name.part != shared {
				g.fail(fmt.Errorf("%s:%d: includes %s, and does not use it", s.file, s.first+i, name.name))
			}
		}
	}
	for i := range s.lines {
		for _, of := range used[i] {
			if slices.Contains(included[i], of) || slices.Contains(builtin, of) {
				continue
			}
			k := slices.IndexFunc(s.known, func(n name) bool { return n.name == of })
			switch {
			case k < 0:
				g.fail(fmt.Errorf("%s:%d: uses %s, and does not include it", s.file, s.first+i, of))
			case !slices.Contains(needed, s.known[k]):
				needed = append(needed, s.known[k])
			}
		}
	}
	return needed
}

// exists fails if no part defines a name that a line includes.
func (g *includer) exists(n name, file string, line int) bool {
	if g.parts[n.part][n.name] != nil {
		return true
	}
	g.fail(fmt.Errorf("%s:%d: includes %s, which parts/%s.lua does not define", file, line, n.name, n.part))
	return false
}

// globals adds the global variables that a function uses, by line.
func globals(f *lua.FunctionProto, used [][]string) {
	for i, code := range f.Code {
		if op := int(code >> 26); op == lua.OP_GETGLOBAL || op == lua.OP_SETGLOBAL {
			line := f.DbgSourcePositions[i] - 1
			used[line] = append(used[line], f.Constants[code&0x3ffff].String())
		}
	}
	for _, inner := range f.FunctionPrototypes {
		globals(inner, used)
	}
}
