// Package importtest tests which packages a package links.
package importtest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Only fails the test if the package in the current folder links anything besides the standard library
// and the allowed packages. The list includes the package itself.
func Only(t *testing.T, allowed ...string) {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the go command is not installed")
	}
	list, err := exec.Command(goTool, "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for path := range strings.FieldsSeq(string(list)) {
		if !slices.Contains(allowed, path) {
			t.Errorf("imports %s", path)
		}
	}
}
