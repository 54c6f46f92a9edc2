package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPushOptions checks that the table of push options has each one of Go, of /v1 and of the command line.
func TestPushOptions(t *testing.T) {
	file := func(name string) string {
		text, err := os.ReadFile(filepath.Join(project, name))
		must(t, err)
		return string(text)
	}
	between := func(text, from, to string) string {
		_, text, found := strings.Cut(text, from)
		text, _, ends := strings.Cut(text, to)
		if !found || !ends {
			t.Fatalf("%q and %q are not there", from, to)
		}
		return text
	}
	all := func(text, pattern string) (names []string) {
		for _, found := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			names = append(names, found[1])
		}
		return names
	}
	api := exported(t, "client")
	names := all(api, `(?m)^func (\w+)\(.*\) (?:PushOption|Policy)$`)
	for _, options := range []string{"JobOptions", "Group"} {
		for _, field := range all(between(api, "\ntype "+options+" struct {\n", "\n}"), `(?m)^\s+(\w+) `) {
			names = append(names, options+"."+field)
		}
	}
	schema := between(file("internal/web/api/openapi.yaml"), "\n    NewJob:\n", "\n    NewJobs:\n")
	fields := append(all(schema, `(?m)^        (\w+):`), "Idempotency-Key")
	fields = slices.DeleteFunc(append(fields, strings.Split(between(schema, "enum: [", "]"), ", ")...), func(name string) bool { return strings.HasSuffix(name, "_base64") })
	flags := all(between(file("internal/cli/help/en.txt"), "\n[push]\n", "\n[pop]\n"), `(?m)^(--[a-z-]+)`)

	for page, title := range map[string]string{"docs/go.md": "\n### Push options\n", "docs/go.zh-CN.md": "\n### 推送选项\n"} {
		var column [3]string
		_, rows, _ := strings.Cut(between(pages(t)[page], title, "\n### "), "\n|---|")
		for line := range strings.Lines(rows) {
			if cells := cellsOf(strings.TrimSpace(line)); len(cells) == 4 {
				for i := range column {
					column[i] += cells[i] + " "
				}
			}
		}
		for i, want := range [][]string{names, fields, flags} {
			got := all(column[i], [3]string{`((?:JobOptions|Group)\.\w+|\w+)\b`, "`([^`]+)`", "`(--[^`]+)`"}[i])
			if i == 0 {
				got = slices.DeleteFunc(got, func(name string) bool { return !slices.Contains(want, name) }) // parameters, and what is no option
			}
			slices.Sort(got)
			slices.Sort(want)
			if got = slices.Compact(got); !slices.Equal(got, want) {
				t.Errorf("%s has\n%q\nand there are\n%q", page, got, want)
			}
		}
	}
}
