package main

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"slices"
	"testing"
	"testing/fstest"
)

// TestGenerated fails when lua/gen is not what go generate makes of the sources.
func TestGenerated(t *testing.T) {
	want, err := generate(os.DirFS("../lua"))
	if err != nil {
		t.Fatal(err)
	}
	gen := os.DirFS("../lua/gen")
	got, err := fs.Glob(gen, "*")
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(want)); !slices.Equal(got, names) {
		t.Errorf("lua/gen has %q, want %q: run go generate ./internal/store", got, names)
	}
	for name, text := range want {
		if file, err := fs.ReadFile(gen, name); err != nil || string(file) != text {
			t.Errorf("lua/gen/%s is not what the sources make: run go generate ./internal/store", name)
		}
	}
}

var parts = map[string]string{
	"parts/a.lua":    "-- Some.\n\n-- One.\nlocal one, uno = 1, 1\nlocal two = 2 -- more\nlocal function three(x)\n  return x + one + two -- in all\nend\n",
	"parts/b.lua":    "-- include: a: one\nlocal four = one + 3\n",
	"parts/d.lua":    "-- More.\n-- include: a\n\nlocal function seven(x)\n  return x .. six\nend\n\nlocal six = POOL .. one\n",
	"parts/call.lua": "local left = 9\n",
	"parts/e.lua":    "-- include: call\n\nlocal function spend()\n  left = left - 1\nend\n",
}

var includeCases = []struct{ name, script, want string }{
	{"each definition once, behind what it includes", "-- include: a: uno three; b: four\nlocal y = three(four) + uno\nreturn y\n", `local one, uno = 1, 1
local two = 2
local function three(x)
  return x + one + two
end
local four = one + 3
local y = three(four) + uno
return y
`},
	{"in a block, but for what is defined", "-- include: a: two\nlocal y = two\nif y then\n  -- include: b: four\n  y = four\nend\n-- include: b: four; a: three uno\nreturn three(uno, four)\n",
		`local two = 2
local y = two
if y then
  local one, uno = 1, 1
  local four = one + 3
  y = four
end
local one, uno = 1, 1
local four = one + 3
local function three(x)
  return x + one + two
end
return three(uno, four)
`},
	{"what Go writes, what is of the same part, and what a head includes", "-- include: d\nreturn seven(POOL)\n",
		`local POOL = 'p'
local one, uno = 1, 1
local six = POOL .. one
local function seven(x)
  return x .. six
end
return seven(POOL)
`},
	{"a header's first paragraph", "-- s: adds one,\n-- and two.\n--\n-- KEYS[1] none\n-- include: a\nreturn one + two -- more\n",
		"-- s: adds one,\n-- and two.\nlocal one, uno = 1, 1\nlocal two = 2\nreturn one + two -- more\n"},
	{"a header of one paragraph", "-- s: returns one.\n-- include: a: one\nreturn one\n", "-- s: returns one.\nlocal one, uno = 1, 1\nreturn one\n"},
	{"what all scopes share", "-- include: call: left\nfor _ = 1, 2 do\n  -- include: e: spend\n  spend()\nend\nreturn 0\n", `local left = 9
for _ = 1, 2 do
  local function spend()
    left = left - 1
  end
  spend()
end
return 0
`},
	{"what is not defined", "-- include: a: six; c: seven\nreturn six, seven\n",
		"s.lua:1: includes seven, which parts/c.lua does not define\ns.lua:1: includes six, which parts/a.lua does not define"},
	{"what is not used", "-- include: a: one two\nreturn one\n", "s.lua:1: includes two, and does not use it"},
	{"what is not used in the block", "if KEYS then\n  -- include: a: one\n  ARGV = 1\nend\nreturn one\n", "s.lua:2: includes one, and does not use it\ns.lua:5: uses one, and does not include it"},
	{"what is not included", "-- include: a: one\nlocal function f()\n  x = two\nend\nreturn one\n", "s.lua:3: uses two, and does not include it\ns.lua:3: uses x, and does not include it"},
	{"what is refused", "local call = redis.call\nreturn call(KEYS[1], string.format('%d %s', 1, 'a'))\n", "s.lua:2: Lua's %s ends at a zero byte, which topics and IDs may have: use ..\n" +
		"s.lua:2: the command is no literal text, which Redis behind some proxies refuses"},
	{"what is no Lua", "return return\n", "s.lua line:1(column:13) near 'return':   syntax error\n"},
}

// TestIncludes puts small scripts together.
func TestIncludes(t *testing.T) {
	for _, c := range includeCases {
		sources := fstest.MapFS{"s.lua": {Data: []byte(c.script)}}
		for name, text := range parts {
			sources[name] = &fstest.MapFile{Data: []byte(text)}
		}
		g := newIncluder(sources, map[string]string{"go": "local POOL = 'p'\n"})
		got := g.script("s.lua")
		if len(g.errs) > 0 {
			got = errors.Join(g.sorted()...).Error()
		}
		if got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// What is wrong with the definitions themselves is told, too.
func TestDefinitionsAreChecked(t *testing.T) {
	g := newIncluder(fstest.MapFS{
		"s.lua":       {Data: []byte("-- include: a: one\nreturn one\n")},
		"parts/a.lua": {Data: []byte("local two = 2\n\n-- include: a: two\nlocal one = 1\nlocal function three()\n  return two\nend\n")},
		"parts/b.lua": {Data: []byte("-- Some.\n-- include: a c\n\nlocal five = six\n")},
	}, nil)
	g.script("s.lua")
	want := `parts/a.lua:3: includes two, and does not use it
parts/a.lua:5: nothing includes three
parts/b.lua: includes a, and does not use it
parts/b.lua: includes c: there is no parts/c.lua
parts/b.lua:4: nothing includes five
parts/b.lua:4: uses six, and does not include it`
	if err := g.err(); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
