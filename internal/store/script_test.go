package store

import (
	"strings"
	"testing"
)

// A part that two blocks of a script include is there once, and parts of other scripts are absent.
func TestScriptHasNoMoreThanItUses(t *testing.T) {
	for script, counts := range map[*script]map[string]int{
		pushScript:     {"redis.call('TIME')": 1, "local function score_of": 1, "local function exact_score": 0, "local topics_due =": 1},
		popScript:      {"local now_s =": 0, "local function take_all": 1, "local function withdraw": 0, "local function pass_on": 1},
		moveScript:     {"local time = ": 0, "local function wake(": 2}, // one of them for a limit's free slot
		reserveScript:  {"local time = ": 2, "local function bury(": 1, "local function unlist": 1, "local dead_topics =": 1, "local function open_limit": 1, "local function wake_throttled": 1},
		ackScript:      {"local function end_throttling": 1, "local slots =": 1, "-- include": 0},
		fireScript:     {"local time = ": 1, "local pool =": 1, "  -- include": 0, "local function follow_last": 1, "local function read_lease": 1, "local function register_use": 1},
		removeScript:   {"local time = ": 0, "local function withdraw": 1, "local function wake_throttled": 1, "local function count_reserved": 0},
		registerScript: {"local ": 0},
	} {
		for code, want := range counts {
			if got := strings.Count(script.plain().text, code); got != want {
				t.Errorf("%s has %q %d times, want %d", script.name, code, got, want)
			}
		}
	}
}

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

// A script that is never run takes hardly any memory, since live memory makes each garbage collection slower.
func TestScriptThatIsNotRun(t *testing.T) {
	const most = 10 // less than its text would take
	if n := testing.AllocsPerRun(10, func() { newScript("reserve") }); n > most {
		t.Errorf("to name a script takes %v allocations, want %d at most", n, most)
	}
	s := newScript("reserve")
	first := s.plain()
	if s.plain() != first || first.text != reserveScript.plain().text {
		t.Error("a form of a script is not the same each time")
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
