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

// The forms of a script for a cluster check whether keys have moved wherever the script can, and sharded ones never publish to all nodes.
func TestScriptInACluster(t *testing.T) {
	files, err := scripts.ReadDir("lua/gen")
	check(t, err)
	allChecks, allPublished := 0, 0
	for _, file := range files {
		s := newScript(strings.TrimSuffix(file.Name(), ".lua"))
		forms := []string{s.plain().text, s.inCluster().text, s.sharded().text}
		checks, published := strings.Count(forms[0], "local IN_CLUSTER = false"), strings.Count(forms[0], "'PUBLISH'")
		for code, want := range map[string][3]int{
			"IN_CLUSTER = false": {checks, 0, 0}, "local IN_CLUSTER = true": {0, checks, checks},
			"'PUBLISH'": {published, published, 0}, "'SPUBLISH'": {0, 0, published},
		} {
			for i, text := range forms {
				if got := strings.Count(text, code); got != want[i] {
					t.Errorf("%s, form %d, has %q %d times, want %d", s.name, i, code, got, want[i])
				}
			}
		}
		if checks == 0 && strings.Contains(forms[0], "IN_CLUSTER") {
			t.Errorf("%s uses IN_CLUSTER, and does not define it as the loader expects", s.name)
		}
		allChecks, allPublished = allChecks+checks, allPublished+published
	}
	if allChecks == 0 || allPublished == 0 {
		t.Errorf("all scripts have %d checks and publish in %d places", allChecks, allPublished)
	}
}
