package server

import (
	"os/exec"
	"strings"
	"testing"
)

// Who embeds the server links redigo and the store, and nothing else.
func TestImports(t *testing.T) {
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("the go command is not installed")
	}
	list, err := exec.Command(goTool, "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	allowed := map[string]bool{
		"github.com/mix-basic/delayer/server":         true,
		"github.com/mix-basic/delayer/internal/store": true,
		"github.com/gomodule/redigo/redis":            true,
	}
	for path := range strings.FieldsSeq(string(list)) {
		if !allowed[path] {
			t.Errorf("imports %s", path)
		}
	}
}
