//go:build !windows

package main

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

func shellCommand(command string) *exec.Cmd { return exec.Command("sh", "-c", command) }

// ownGroup has a program get a process group of its own: so a terminal's ctrl-C stops the
// worker, and not its programs, and they can be ended with all that they have started.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// endGroup tells the program's group to end, and kills what does not. It returns when the program
// has ended.
func endGroup(leader *os.Process, ended <-chan error) {
	syscall.Kill(-leader.Pid, syscall.SIGTERM)
	select {
	case <-ended:
		killGroup(leader.Pid)
	case <-time.After(killAfter):
		killGroup(leader.Pid)
		<-ended
	}
}

func killGroup(leader int) { syscall.Kill(-leader, syscall.SIGKILL) }
