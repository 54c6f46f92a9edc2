//go:build !windows

package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"testing"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// The original takes no lock: its ID in the file keeps a second instance out while it runs. A dead
// process does not, even if it was not reaped yet, nor does another program that was given the ID of a
// crashed instance.
func TestPIDFileWithoutLock(t *testing.T) {
	s := newSite(t, redistest.Nobody(t))
	s.change(t, "pid = "+s.pid, "pid =")
	original := s.started(t)
	other := exec.Command("sleep", "600")
	check(t, other.Start())
	defer other.Wait()
	defer other.Process.Kill()

	next := newSite(t, redistest.Nobody(t))
	zombie := exec.Command(binary, "-c", s.conf)
	check(t, zombie.Start())
	defer zombie.Wait()
	zombie.Process.Kill()
	write(t, next.pid, strconv.Itoa(zombie.Process.Pid))
	eventually(t, "a dead process does not count", func() bool {
		p := next.start(t)
		if !p.says(p.stdout, started) {
			return false
		}
		p.stopped()
		return true
	})
	for pid, running := range map[int]bool{original.pid(): true, other.Process.Pid: false} {
		write(t, next.pid, strconv.Itoa(pid))
		p := next.start(t)
		if running {
			p.ends(exit.Running)
			if want := fmt.Sprintf("ERROR: Service is being executed, PID: %d\n", pid); p.stderr.String() != want {
				t.Errorf("it says %q, want %q", p.stderr, want)
			}
		} else {
			p.expect(p.stdout, started)
			p.stopped()
		}
		if exists(next.pid) != running || running && read(t, next.pid) != strconv.Itoa(pid) {
			t.Errorf("%d: the file has been changed", pid)
		}
	}
}
