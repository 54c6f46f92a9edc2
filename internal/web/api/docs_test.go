package api

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The user documents list exactly the existing kinds of problem with their status, and name only
// existing paths.
func TestDocs(t *testing.T) {
	for _, page := range []string{"http.md", "http.zh-CN.md"} {
		text, err := os.ReadFile("../../../docs/" + page)
		check(t, err)
		var documented, known []string
		for _, row := range regexp.MustCompile(`(?m)^\| (\d{3}) \| ([\w-]+(?:[,、] ?[\w-]+)*) \|`).FindAllStringSubmatch(string(text), -1) {
			for _, name := range regexp.MustCompile(`[\w-]+`).FindAllString(row[2], -1) {
				documented = append(documented, row[1]+" "+name)
			}
		}
		for _, k := range kinds {
			known = append(known, strconv.Itoa(k.status)+" "+k.name)
		}
		slices.Sort(documented)
		slices.Sort(known)
		if !slices.Equal(documented, known) {
			t.Errorf("%s: documented are %q, known are %q", page, documented, known)
		}
		for _, path := range regexp.MustCompile(`/v1/[\w/{}.%-]*\w`).FindAllString(string(text), -1) {
			is := func(r Route) bool {
				values, err := r.match(strings.Split(path, "/"))
				return err == nil && values != nil || r.Path == path
			}
			if !slices.ContainsFunc(Routes, is) {
				t.Errorf("%s: there is no %s", page, path)
			}
		}
	}
}
