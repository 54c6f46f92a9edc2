package store

import (
	"strings"
	"testing"
)

// TestScriptHasWhatItUses looks for what was left out of the parts, or is there twice.
func TestScriptHasWhatItUses(t *testing.T) {
	for script, counts := range map[*script]map[string]int{
		pushScript:    {"redis.call('TIME')": 1, "local function score_of": 1, "local function exact_score": 0, "local pool =": 1},
		popScript:     {"local now_us": 0, "local function take_all": 1, "local function withdraw": 0, "local pool =": 1},
		moveScript:    {"local time = ": 0, "local function wake": 1},
		reserveScript: {"local now_us = ": 1, "local function bury(": 1, "local function unlist": 1, "local prefix =": 1},
		signOffScript: {"local ": 0},
	} {
		for code, want := range counts {
			if got := strings.Count(script.text, code); got != want {
				t.Errorf("%s has %q %d times, want %d", script.name, code, got, want)
			}
		}
	}
}

// What is for clusters is not in the scripts that others run.
func TestScriptInACluster(t *testing.T) {
	for _, c := range []struct {
		script                        *script
		elsewhere, publishes, sharded int
	}{
		{moveScript, 0, 1, 0}, {moveScript.inCluster, 2, 1, 0}, {moveScript.sharded, 2, 0, 1},
		{popScript, 0, 1, 0}, {popScript.sharded, 0, 0, 1}, {getScript.sharded, 0, 0, 0},
	} {
		for code, want := range map[string]int{"elsewhere(": c.elsewhere, "cluster: ": 0, "'PUBLISH'": c.publishes, "'SPUBLISH'": c.sharded} {
			if got := strings.Count(c.script.text, code); got != want {
				t.Errorf("%s has %q %d times, want %d", c.script.name, code, got, want)
			}
		}
	}
}
