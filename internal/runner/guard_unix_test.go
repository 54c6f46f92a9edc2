//go:build !windows

package runner

import (
	"io"
	"os/exec"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

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
