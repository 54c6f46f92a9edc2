package cli

import (
	"slices"
	"strings"
	"testing"
)

// The completions of each word. An empty result makes shells complete file names.
func TestComplete(t *testing.T) {
	for line, want := range map[string]string{
		"pu":                        "purge push",
		"dead ":                     "drop groups list requeue",
		"dead r":                    "requeue",
		"help schedule re":          "remove resume",
		"completion ":               "bash fish zsh",
		"-c a --json pau":           "pause",
		"--configuration = a pau":   "pause",
		"--ch":                      "--check-config",
		"push t 5 b --rep":          "--replicas --replicas-timeout",
		"pop --":                    "--configuration --help --json --quiet --redis --token-file --url",
		"schedule next --z":         "--zone",
		"version --":                "--help",
		"worker --topic t --e":      "--exec",
		"worker --topic t prog --e": "",
		"push t 5 ":                 "",
		"push --id -":               "",
		"push -- --":                "",
		"dead list ":                "",
	} {
		var got []string
		for _, candidate := range complete(strings.Split(line, " ")) {
			word, text, tab := strings.Cut(candidate, "\t")
			if got = append(got, word); !tab || text == "" && line != "completion " {
				t.Errorf("%q: %q has no description", line, candidate)
			}
		}
		if got := strings.Join(slices.Sorted(slices.Values(got)), " "); got != want {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
