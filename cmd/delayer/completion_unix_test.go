//go:build !windows

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

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
	for _, line := range []string{"LANG=C man", "LANG=zh_CN man", "LANG=C man delayer.conf"} {
		words := strings.Fields(line)
		page := runBinary(t, t.TempDir(), environment(t, words[0]), words[1:]...).stdout
		cmd := exec.Command(tool(t, "groff"), "-man", "-Tutf8", "-ww", "-Kutf8", "-rLL=200n", "-P-c", "-P-b", "-P-u")
		cmd.Stdin = strings.NewReader(page)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil || stderr.Len() > 0 {
			t.Errorf("%v: %s", err, &stderr)
		}
		want := []string{"DELAYER.CONF(5)", "\n       timer_interval = 1000\n", "\n[redis]\n", "\n       expire_after = 604800\n"}
		if strings.HasPrefix(page, ".TH DELAYER 1 ") {
			want = []string{"DELAYER(1)", "\n       --check-config\n", `delayer push close_order 30m '{"order":1001}' --id order-1001`}
			for _, synopsis := range documented(t) {
				want = append(want, "\n   delayer "+strings.TrimSuffix(synopsis, " [options]")+"\n")
			}
		}
		for _, text := range want {
			if !strings.Contains(string(out), text) {
				t.Errorf("no %q in %s", text, out)
			}
		}
	}
}

// documented returns the commands in docs/commands.md, which a test compares with the help, and how each is called.
func documented(t *testing.T) map[string]string {
	t.Helper()
	calls := map[string]string{}
	for _, found := range regexp.MustCompile("(?m)^### delayer (.*)\n\n`delayer (.*)`$").FindAllStringSubmatch(read(t, "../../docs/commands.md"), -1) {
		calls[found[1]] = found[2]
	}
	if len(calls) < 30 {
		t.Fatalf("%q", calls)
	}
	return calls
}
