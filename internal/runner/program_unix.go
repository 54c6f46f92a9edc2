//go:build !windows

package runner

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
)

func shellCommand(ctx context.Context, command string) *exec.Cmd {
	return exec.CommandContext(ctx, "sh", "-c", command)
}

// firstWord matches the first word that a shell command runs, after assignments, if that word is
// plain.
var firstWord = regexp.MustCompile(`^\s*(?:\w+=[\w./:@%+,-]*\s+)*([\w./@%+,:][\w./@%+,:-]*)(?:\s|[;&|<>]|$)`)

// findInShell looks for the program that a shell command runs first. The path is empty if that is
// no file, or is unknown.
func findInShell(command string) (path string, err error) {
	match := firstWord.FindStringSubmatch(command)
	switch {
	case match == nil:
		return "", nil
	case strings.Contains(match[1], "/"):
		return exec.LookPath(match[1])
	}
	// It may be a builtin of the shell.
	if exec.Command("sh", "-c", `command -v "$0"`, match[1]).Run() != nil {
		return "", fmt.Errorf("the shell knows no command %q", match[1])
	}
	path, _ = exec.LookPath(match[1])
	return path, nil
}

// checkInterpreter looks for the interpreter of a script, even if the script uses env to find it.
func checkInterpreter(path string) error {
	script, err := os.Open(path)
	if err != nil {
		return nil // executable but not readable
	}
	defer script.Close()
	line, _ := bufio.NewReader(io.LimitReader(script, 4096)).ReadString('\n')
	line, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "#!")
	words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	if !found || len(words) == 0 {
		return nil
	}
	if _, err := exec.LookPath(words[0]); err != nil {
		return fmt.Errorf("%s: its interpreter: %w", path, err)
	}
	if !strings.HasSuffix(words[0], "/env") {
		return nil
	}
	for _, word := range words[1:] {
		if strings.HasPrefix(word, "-") || strings.Contains(word, "=") {
			continue
		}
		if _, err := exec.LookPath(word); err != nil {
			return fmt.Errorf("%s: its interpreter: %w", path, err)
		}
		break
	}
	return nil
}

// endGroup asks the program and its children to end.
func endGroup(leader *os.Process) error { return syscall.Kill(-leader.Pid, syscall.SIGTERM) }

func killGroup(leader *os.Process) { syscall.Kill(-leader.Pid, syscall.SIGKILL) }

// fleetingFile creates a file and removes its name.
func fleetingFile() (*os.File, error) {
	f, err := os.CreateTemp("", "delayer-body-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// guard is a process that outlives the worker briefly. If the worker is killed, the guard's input ends, and it kills
// the process groups of the running programs.
type guard struct{ input io.Writer }

// guardScript reads "+ GROUP" after a program was started, and "- GROUP" after it has ended.
const guardScript = `trap '' HUP INT QUIT TERM
while read -r what group; do
	case $what in
	+) groups="$groups $group " ;;
	-) groups="${groups%% $group *}${groups#* $group }" ;;
	esac
done
for group in $groups; do kill -s KILL -- "-$group"; done`

// startGuard starts the guard. Without a shell it does nothing.
func startGuard() guard {
	cmd := exec.Command("sh", "-c", guardScript, "delayer worker's guard")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // keeps a terminal's ctrl-C away
	input, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return guard{io.Discard}
	}
	go cmd.Wait()
	return guard{input}
}

func (g guard) watch(group int) { fmt.Fprintf(g.input, "+ %d\n", group) }

func (g guard) forget(group int) { fmt.Fprintf(g.input, "- %d\n", group) }
