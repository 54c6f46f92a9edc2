//go:build !windows

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// Each shell completes a command and its option as the script defines, and executes nothing from the line.
func TestCompletionScripts(t *testing.T) {
	dir := t.TempDir()
	evil := filepath.Join(dir, "evil")
	for shell, script := range map[string]string{
		"bash": `source <(delayer completion bash)
			COMP_WORDS=(delayer push '$(touch %[1]s)' 5 --replicas-) COMP_CWORD=4; _delayer; echo "${COMPREPLY[*]}"
			COMP_WORDS=(delayer sched) COMP_CWORD=1; _delayer; echo "${COMPREPLY[*]}"`,
		"zsh": `compdef() { :; }; _describe() { print -r -- ${${(P)2}%%%%:*} }; _files() { :; }
			source <(delayer completion zsh)
			words=(delayer push '$(touch %[1]s)' 5 --replicas-) CURRENT=5; _delayer
			words=(delayer sched) CURRENT=2; _delayer`,
		"fish": `delayer completion fish | source
			complete -C 'delayer push "\$(touch %[1]s)" 5 --replicas-' | string replace -r '\t.*' ''
			complete -C 'delayer sched' | string replace -r '\t.*' ''`,
	} {
		t.Run(shell, func(t *testing.T) {
			path, err := exec.LookPath(shell)
			if err != nil {
				t.Skip(err)
			}
			cmd := exec.Command(path, "-c", fmt.Sprintf(script, evil))
			cmd.Dir, cmd.Env = dir, environment(t, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"))
			if out, err := cmd.CombinedOutput(); err != nil || string(out) != "--replicas-timeout\nschedule\n" {
				t.Errorf("%v: %s", err, out)
			}
			if exists(evil) {
				t.Error("it ran what stood in the line")
			}
		})
	}
}

// troff accepts the manual pages without a warning. They contain every command and key.
func TestManualPages(t *testing.T) {
	for _, page := range []string{readWords("en").manual(), readWords("zh").manual(), configurationManual()} {
		cmd := exec.Command(tool(t, "groff"), "-man", "-Tutf8", "-ww", "-Kutf8", "-rLL=200n", "-P-c", "-P-b", "-P-u")
		cmd.Stdin = strings.NewReader(page)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil || stderr.Len() > 0 {
			t.Errorf("%v: %s", err, &stderr)
		}
		want := []string{"DELAYER.CONF(5)", "\n       timer_interval = 1000\n", "\n[redis]\n", "\n       ready_max_lifetime = 604800\n"}
		if strings.HasPrefix(page, ".TH DELAYER 1 ") {
			want = []string{"DELAYER(1)", "\n       --check-config\n", `delayer push close_order 30m '{"order":1001}' --id order-1001`}
			for _, c := range listed() {
				want = append(want, "\n   delayer "+strings.TrimSpace(c.name+" "+c.arguments)+"\n")
			}
		}
		for _, text := range want {
			if !strings.Contains(string(out), text) {
				t.Errorf("no %q in %s", text, out)
			}
		}
	}
}
