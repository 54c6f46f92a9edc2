//go:build !windows

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// Each exit code of the table can occur, and the help explains it.
func TestExitCodes(t *testing.T) {
	withPassword := redistest.Start(t, "--requirepass", "right")
	_, listed, _ := strings.Cut(read(t, "../../docs/commands.md"), "\n## Exit codes\n") // which a test compares with the help
	exitCodes := regexp.MustCompile(`(?m)^- (\d+): (.*)$`).FindAllStringSubmatch(listed, -1)
	help := runBinary(t, t.TempDir(), environment(t), "help").stdout
	run := func(s site, args ...string) int {
		return runBinary(t, s.dir, environment(t), append([]string{"-c", s.conf}, args...)...).code
	}
	ways := map[int]func(s site) int{
		exit.Done:    func(s site) int { return run(s, "push", "t", "0", "b") },
		exit.Nothing: func(s site) int { return run(s, "pop", "empty") },
		exit.Usage: func(s site) int {
			s.change(t, "port = ", "port = x")
			return run(s)
		},
		exit.Redis: func(s site) int {
			s.change(t, "right", "wrong")
			return run(s)
		},
		exit.Running: func(s site) int {
			s.started(t)
			return run(s)
		},
		exit.Output: func(s site) int {
			reader, writer, err := os.Pipe()
			check(t, err)
			defer writer.Close()
			reader.Close()
			return startInto(t, s.dir, environment(t), writer, nil, "-c", s.conf, "push", "t", "0", "b").wait()
		},
		exit.Failed: func(s site) int { return killChild(t) },
		exit.Interrupted: func(s site) int {
			p, _ := startReading(t, s.dir, environment(t), "-c", s.conf, "push", "t", "0", "-")
			p.signal(syscall.SIGINT)
			return p.wait()
		},
	}
	for _, e := range exitCodes {
		want, err := strconv.Atoi(e[1])
		check(t, err)
		way, ok := ways[want]
		if !ok {
			t.Errorf("no way to %d", want)
			continue
		}
		if code := way(newSite(t, withPassword.Addr, "password = right")); code != want {
			t.Errorf("%d instead of %s: %s", code, e[1], e[2])
		}
		if !strings.Contains(strings.ReplaceAll(help, "\n", " "), " "+e[1]+" ") {
			t.Errorf("the help does not tell of %s: %s", e[1], help)
		}
	}
	if len(ways) != len(exitCodes) {
		t.Errorf("%d codes in the table, want %d", len(exitCodes), len(ways))
	}
}

// killChild kills a daemon in the background before it is ready.
func killChild(tb testing.TB) (code int) {
	tb.Helper()
	mute := newMute(tb)
	s := newSite(tb, mute.addr)
	p := s.start(tb, "-d")
	mute.waitForConnection()
	pid, err := strconv.Atoi(read(tb, s.pid))
	check(tb, err)
	syscall.Kill(pid, syscall.SIGKILL)
	code = p.wait()
	if p.stderr.String() != "ERROR: the service ended before it was ready: signal: killed\n" {
		tb.Errorf("stderr %q", p.stderr)
	}
	return code
}

// startReading starts a program and waits until it reads its input. The test can write more to the
// returned file.
func startReading(tb testing.TB, dir string, env []string, args ...string) (p *process, input *os.File) {
	tb.Helper()
	stdin, input, err := os.Pipe()
	check(tb, err)
	tb.Cleanup(func() { input.Close() })
	defer stdin.Close()
	cmd := exec.Command(binary, args...)
	cmd.Stdin = stdin
	p = startCommand(tb, dir, env, cmd)
	if _, err := input.Write(make([]byte, 1<<20)); err != nil { // more than a pipe holds
		tb.Fatal(err)
	}
	return p, input
}

// A crash does not exit with 2, the code for a wrong configuration. TestStalePIDFile shows that another start works.
func TestCrash(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	p := newSite(t, redistest.Nobody(t)).started(t)
	p.signal(syscall.SIGABRT)
	p.wait()
	if state := p.cmd.ProcessState; state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGABRT {
		t.Errorf("ended with %v", state)
	}
}
