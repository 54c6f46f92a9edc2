package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rule is a word or phrase that has a better one.
type rule struct{ refused, instead string }

// refused are phrases that a native engineer would not write, each with what to write instead. They are refused
// in comments and in English documents. Common words that also have good uses (line, place, before, node) are
// left to reviewers.
var refused = []rule{
	{`is that of|are those of`, "name the thing: Get implements Source"},
	{`be it`, "whether … or"},
	{`worth no`, "say what is left out"},
	{`of which it is|of whom`, "two sentences"},
	{`there is none|are none|is none`, "there are no …; nil or 0 if …"},
	{`(of|from) before`, "previous, old"},
	{`what (becomes|became) of`, "what happens to"},
	{`comes about`, "happens"},
	{`bears? (it|what|that)`, "carries, tolerates"},
	{`has it (that|be)`, "makes, says"},
	{`have (it|nothing|something) (be )?[a-z]+ed`, "make it …, stop"},
	{`(has|have) (it|that|them|him|one|all|each|nothing|jobs|somebody|others) (be|do|go|look|wait|ask)`, "makes it …, lets it …"},
	{`(?-i:(^|[.:;] )Who(ever)? [a-z]+s)`, "name who: a client that …"},
	{`(those|they|he) who`, "name who: clients that …"},
	{`for want of`, "without, because there is no"},
	{`in the midst`, "during"},
	{`no longer does`, "say what it does instead"},
	{`nobody has (said|asked)`, "say what is missing"},
	{`set aside`, "parked (paused), in transit (moving)"},
	{`held back`, "throttled"},
	{`rid(e|es|ing) out`, "retry window, survive"},
	{`(stand(s|ing)?|stood) (in|by)( for)?`, "take over, standby, replace"},
	{`a moment of|its? moments?|each moment`, "occurrence"},
	{`mend(s|ed|ing)?`, "repair, fix"},
	{`strangers?`, "unauthenticated client"},
	{`the front`, "the HTTP server"},
	{`put(s|ting)? off`, "defer, reschedule"},
	{`lest`, "so that … not"},
	{`beside`, "besides, next to, in addition to"},
	{`(up to )?so many|for so long`, "how many, how long: a number of, for that time"},
	{`a look|looks? at all`, "poll, check"},
	{`given? back|gives? back|giving back`, "release, return"},
	{`hast(y|ily)`, "NoWait"},
}

// refusedInDocuments are phrases that documents had too often.
var refusedInDocuments = []rule{
	{`(is|are) away`, "is unreachable"},
	{`go(es)? on`, "continues"},
	{`by itself`, "automatically"},
	{`trouble`, "problem"},
	{`blanks?`, "space"},
	{`where (it|each|they) ends?`, "exceptions"},
}

// names are the parts of identifiers that have a better word. Redis keys are texts, not identifiers, and stay.
var names = []rule{
	{`[hH]eldBack`, "throttled"},
	{`[sS]etAside`, "parked, in transit"},
	{`[gG]iv(e|en)Back`, "release, returned"},
	{`[sS]tand(s|ing)?(In|By)([A-Z]|$)|[sS]toodIn`, "standby, takeOver"},
	{`[sS]tranger`, "unauthenticated"},
	{`[rR]id(e|es|ing)Out`, "retryWindow"},
	{`[pP]utOff`, "defer, reschedule"},
	{`PartitionsBefore|[oO]fBefore`, "previous"},
	{`^[mM]oments?([A-Z]|$)|[a-z]Moments?([A-Z]|$)`, "occurrence"},
	{`[mM]end(ed|s)?([A-Z]|$)`, "repair"},
	{`[hH]asty`, "noWait"},
	{`[eE]ntered([A-Z]|$)`, "registered"},
	{`[pP]ostpone|[sS]nooze`, "release"},
	{`^Front([A-Z]|$)`, "the HTTP server"},
}

// goodUses are phrases that contain a refused one and are fine.
var goodUses = regexp.MustCompile(`if there (is|are) none|has to|have to`)

// unworded are generated files, files of tools, the changelog, Chinese documents, and this file.
var unworded = regexp.MustCompile(`(^|/)(gen/|\.)|\.zh-CN\.md$|^CHANGELOG\.md$|(^|/)words_test\.go$`)

// search returns a function that reports what the rules refuse. In form %s is what they refuse.
func search(t *testing.T, form string, rules []rule) func(file string, line int, text string) {
	each := make([]*regexp.Regexp, len(rules))
	var all []string
	for i, r := range rules {
		each[i] = regexp.MustCompile(fmt.Sprintf(form, r.refused))
		all = append(all, r.refused)
	}
	some := regexp.MustCompile(fmt.Sprintf(form, strings.Join(all, "|"))) // most texts need no search for each
	return func(file string, line int, text string) {
		t.Helper()
		if !some.MatchString(text) {
			return
		}
		text = goodUses.ReplaceAllString(text, "")
		for i, r := range each {
			if found := r.FindString(text); found != "" {
				t.Errorf("%s:%d: %q: write %s", file, line, found, rules[i].instead)
			}
		}
	}
}

// TestWords refuses words that have a better one in comments, English documents and declared names.
func TestWords(t *testing.T) {
	const words = `(?i)\b(?:%s)\b`
	text, document, name := search(t, words, refused), search(t, words, slices.Concat(refused, refusedInDocuments)), search(t, `%s`, names)
	files := sources(t, ".go", ".lua", ".md")
	if len(files) < 100 {
		t.Fatalf("%d files", len(files))
	}
	for file, source := range files {
		if unworded.MatchString(file) {
			continue
		}
		switch filepath.Ext(file) {
		case ".md":
			for i, line := range strings.Split(source, "\n") {
				document(file, i+1, line)
			}
		case ".lua":
			for i, line := range strings.Split(source, "\n") {
				if _, comment, ok := strings.Cut(line, "-- "); ok {
					text(file, i+1, comment)
				}
			}
		case ".go":
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, file, source, parser.ParseComments|parser.SkipObjectResolution)
			must(t, err)
			for _, group := range parsed.Comments {
				for _, c := range group.List {
					text(file, set.Position(c.Pos()).Line, strings.TrimSpace(strings.TrimPrefix(c.Text, "//")))
				}
			}
			declared(parsed, func(id *ast.Ident) { name(file, set.Position(id.Pos()).Line, id.Name) })
		}
	}
}

// declared calls name for each name that the file declares: of functions, types, constants, variables, fields,
// parameters and results.
func declared(parsed *ast.File, name func(id *ast.Ident)) {
	each := func(ids ...*ast.Ident) {
		for _, id := range ids {
			name(id)
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			each(n.Name)
		case *ast.TypeSpec:
			each(n.Name)
		case *ast.ValueSpec:
			each(n.Names...)
		case *ast.Field:
			each(n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				for _, e := range n.Lhs {
					if id, ok := e.(*ast.Ident); ok {
						each(id)
					}
				}
			}
		}
		return true
	})
}
