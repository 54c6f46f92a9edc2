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
