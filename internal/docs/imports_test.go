package docs

import (
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestImportsRunDown checks that a package imports only packages in its own row of ARCHITECTURE.md's table, or below. A package belongs
// to the row that names it or the folder that it is in.
func TestImportsRunDown(t *testing.T) {
	const module = "github.com/mix-basic/delayer/"
	_, table, _ := strings.Cut(pages(t)["ARCHITECTURE.md"], "\n|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]int{}
	for i, row := range strings.Split(table, "\n") {
		for _, name := range inlineCode.FindAllStringSubmatch(row, -1) {
			rows[name[1]] = i + 1
		}
	}
	rowOf := func(folder string) int {
		for ; folder != "."; folder = path.Dir(folder) {
			if row := rows[folder]; row > 0 {
				return row
			}
		}
		return 0 // not in the table
	}
	count, files := 0, sources(t, ".go")
	for _, file := range slices.Sorted(maps.Keys(files)) {
		row := rowOf(path.Dir(file))
		if row == 0 || strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := parser.ParseFile(token.NewFileSet(), file, files[file], parser.ImportsOnly)
		must(t, err)
		for _, one := range source.Imports {
			name, _ := strconv.Unquote(one.Path.Value)
			imported, ours := strings.CutPrefix(name, module)
			if !ours {
				continue
			}
			if count++; rowOf(imported) < row {
				t.Errorf("%s imports %s, which is above it in ARCHITECTURE.md, or not in its table", file, imported)
			}
		}
	}
	if count < 200 {
		t.Errorf("%d imports", count)
	}
}
