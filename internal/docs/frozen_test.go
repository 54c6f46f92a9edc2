package docs

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/config"
)

var update = flag.Bool("update", false, "write testdata/frozen anew")

// TestFrozen compares what 1.1.0 promises with what is recorded in testdata/frozen: the packages for Go programs,
// settings, metrics and exit codes. A change or a removal breaks somebody's program; an addition is recorded. (The
// command line is in cmd/delayer/testdata/commandlines.txt, the HTTP API in internal/web/api/openapitest/testdata/frozen.txt.)
// After a deliberate change: go test ./internal/docs -run TestFrozen -update.
func TestFrozen(t *testing.T) {
	now := map[string]string{"settings": settings(), "metrics": metricNames(t), "exit-codes": exitCodes(t)}
	for _, folder := range []string{"client", "client/worker", "client/delayertest", "client/delayerotel", "server", "config", "logger"} {
		now["go-"+strings.ReplaceAll(folder, "/", "-")] = exported(t, folder)
	}
	for name, text := range now {
		file := filepath.Join("testdata", "frozen", name+".txt")
		if *update {
			write(t, file, text)
		}
		before, err := os.ReadFile(file)
		must(t, err)
		if string(before) != text {
			t.Errorf("%s has changed.\ngone:\n%s\nnew:\n%s", file, lacks(string(before), text), lacks(text, string(before)))
		}
	}
}

// lacks returns the lines of a text that another one lacks.
func lacks(text, other string) (lines string) {
	has := map[string]int{}
	for line := range strings.Lines(other) {
		has[line]++
	}
	for line := range strings.Lines(text) {
		if has[line]--; has[line] < 0 {
			lines += line
		}
	}
	return lines
}

// exported prints the exported declarations of a package, without comments and bodies, in the order of their text.
func exported(t *testing.T, folder string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(project, folder))
	must(t, err)
	var list []string
	files := token.NewFileSet()
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, filepath.Join(project, folder, entry.Name()), nil, 0)
		must(t, err)
		ast.FileExports(file)
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				d.Body = nil
			case *ast.GenDecl:
				if d.Tok == token.IMPORT {
					continue
				}
			}
			var text bytes.Buffer
			must(t, format.Node(&text, files, decl))
			list = append(list, regexp.MustCompile(`\n\s*\n`).ReplaceAllString(text.String(), "\n"))
		}
	}
	slices.Sort(list)
	return strings.Join(list, "\n") + "\n"
}

func settings() string {
	var b strings.Builder
	for _, k := range config.Keys() {
		fmt.Fprintf(&b, "%s.%s = %s\n", k.Section, k.Name, k.Default)
	}
	return b.String()
}

// metricNames returns the names that docs/metrics.md has; a test of internal/web/metrics compares them with a scrape.
func metricNames(t *testing.T) string {
	text := pages(t)["docs/metrics.md"]
	names := regexp.MustCompile(`\bdelayer_[a-z_]+[a-z]\b(\{[a-z_,]+\})?`).FindAllString(text, -1)
	slices.Sort(names)
	return strings.Join(slices.Compact(names), "\n") + "\n"
}

func exitCodes(t *testing.T) string {
	var list []string
	for name, value := range constants(t) {
		code, is := strings.CutPrefix(name, "internal/exit.")
		if !is {
			code, is = strings.CutPrefix(name, "internal/runner.exit") // of the programs that it runs
		}
		if _, err := strconv.Atoi(value); is && err == nil {
			list = append(list, fmt.Sprintf("%s %s\n", code, value))
		}
	}
	slices.Sort(list)
	return strings.Join(list, "")
}
