package main

import (
	"fmt"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// needs no include.
var builtin = strings.Fields("redis KEYS ARGV math string table tonumber type ipairs pairs unpack next rawget _G")

// check fails where code uses what it does not include, or includes what it does not use. The compiler takes what is included for
// a global variable, as it is not defined in the same code.
func (g *includer) check(file string, first int, part string, lines []string) {
	chunk, err := parse.Parse(strings.NewReader(strings.Join(lines, "\n")+"\n"), file)
	if err != nil {
		g.fail(err)
		return
	}
	function, err := lua.Compile(chunk, file)
	if err != nil {
		g.fail(err)
		return
	}
	used := make([][]string, len(lines)) // by line
	globals(function, used)
	included := make([][]string, len(lines))
	for i, line := range lines {
		indent, names := parseInclude(line, part)
		for _, name := range names {
			isUsed := false
			for k := i; k < i+blockEnd(lines[i:], indent); k++ {
				isUsed = isUsed || slices.Contains(used[k], name.name)
				included[k] = append(included[k], name.name)
			}
			switch {
			case g.parts[name.part][name.name] == nil:
				g.fail(fmt.Errorf("%s:%d: includes %s, which parts/%s.lua does not define", file, first+i, name.name, name.part))
			case !isUsed:
				g.fail(fmt.Errorf("%s:%d: includes %s, and does not use it", file, first+i, name.name))
			}
		}
	}
	for i := range lines {
		for _, name := range used[i] {
			if !slices.Contains(included[i], name) && !slices.Contains(builtin, name) {
				g.fail(fmt.Errorf("%s:%d: uses %s, and does not include it", file, first+i, name))
			}
		}
	}
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
