//go:build !windows

package runner

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A command that a shell may be able to run is not refused.
func TestWorkerWithProgram(t *testing.T) {
	script := filepath.Join(t.TempDir(), "good script")
	redistest.Check(t, os.WriteFile(script, []byte("#! /usr/bin/env -S sh -e\n"), 0o755))
	for _, command := range []string{
		"true", " sh -c x", "cd /; ./x", "set -- x", "A=$HOME ./x", "(./x)", "{ ./x; }", "! ./x", "while :; do x; done", `"./x"`, "$X y", "~/x", "./x*", "exec 3>x", "f() { x; }; f", "if x; then y; fi", ">x y", "'" + script + "' x",
	} {
		if err := (&program{shell: command}).find(); err != nil {
			t.Errorf("--exec %q: %v", command, err)
		}
	}
	for _, words := range [][]string{{"sh"}, {script, "x"}, {os.Args[0]}} {
		if err := (&program{words: words}).find(); err != nil {
			t.Errorf("%q: %v", words, err)
		}
	}
}

// The worker's rests become longer while the program is missing.
func TestRestOfAWorkerWithoutProgram(t *testing.T) {
	var p program
	begin := time.Now()
	rest := func(after time.Duration) time.Duration { return p.rest(begin.Add(after)) }
	for _, test := range [][2]time.Duration{{0, time.Second}, {0, time.Second}, {3 * time.Second, 3 * time.Second}, {time.Hour, 15 * time.Second}} {
		if got := rest(test[0]); got != test[1] {
			t.Errorf("rests for %v after %v, want %v", got, test[0], test[1])
		}
	}
	p.started()
	if got := rest(2 * time.Hour); got != time.Second {
		t.Errorf("rests for %v when the program was there meanwhile, want %v", got, time.Second)
	}
}

// When its input ends, the guard kills the groups that it watches, and no group that was removed
// before.
func TestGuard(t *testing.T) {
	t.Parallel()
	g := startGuard()
	programs := make([]*exec.Cmd, 5)
	for i := range programs {
		programs[i] = exec.Command("sleep", "1000")
		programs[i].SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		redistest.Check(t, programs[i].Start())
		defer programs[i].Process.Kill()
		g.watch(programs[i].Process.Pid)
	}
	forgotten := map[int]bool{0: true, 2: true, 3: true}
	for i := range forgotten {
		g.forget(programs[i].Process.Pid)
	}
	g.input.(io.Closer).Close()
	for i, program := range programs {
		if forgotten[i] {
			continue
		}
		program.Wait()
		if got := program.ProcessState.String(); got != "signal: killed" {
			t.Errorf("program %d: %s", i, got)
		}
	}
	for i := range forgotten { // they precede the last one
		programs[i].Process.Signal(syscall.SIGTERM)
		programs[i].Wait()
		if got := programs[i].ProcessState.String(); got != "signal: terminated" {
			t.Errorf("forgotten program %d: %s", i, got)
		}
	}
}
