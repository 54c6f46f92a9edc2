package store

import (
	"strings"
	"testing"
)

// Removing a waiting or reserved job returns before the functions for other cases are defined.
func TestPlainRemoveIsTheHead(t *testing.T) {
	head, rest, found := strings.Cut(removeScript.plain().text, "if not rest then return #told > 0 and told or nil end\n")
	if !found || strings.Count(head, "function") != 2 || !strings.Contains(rest, "local function withdraw") {
		t.Errorf("it begins with\n%s", head)
	}
}

// A plain push returns before the functions for other cases are defined. Only a push that falls due soon defines a function, which
// announces it.
func TestPlainPushIsTheHead(t *testing.T) {
	head, rest, found := strings.Cut(pushScript.plain().text, "\n    return nil\n")
	if !found || strings.Count(head, "function") != 1 || !strings.Contains(head, "function announce(") || !strings.Contains(rest, "local function wake(") {
		t.Errorf("it begins with\n%s", head)
	}
}

// Only scripts for clusters contain cluster code.
func TestScriptInACluster(t *testing.T) {
	for _, c := range []struct {
		name                          string
		form                          *form
		elsewhere, publishes, sharded int
	}{
		{"move", moveScript.plain(), 0, 3, 0}, {"move", moveScript.inCluster(), 2, 3, 0}, {"move", moveScript.sharded(), 2, 0, 3},
		{"pop", popScript.plain(), 0, 4, 0}, {"pop", popScript.sharded(), 0, 0, 4}, {"get", getScript.sharded(), 0, 0, 0},
	} {
		for code, want := range map[string]int{"elsewhere(": c.elsewhere, "cluster: ": 0, "'PUBLISH'": c.publishes, "'SPUBLISH'": c.sharded} {
			if got := strings.Count(c.form.text, code); got != want {
				t.Errorf("%s has %q %d times, want %d", c.name, code, got, want)
			}
		}
	}
}
