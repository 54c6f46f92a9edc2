package runner

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the program into its own process group: a terminal's ctrl-C stops the worker and not its programs,
// and a program can be killed with its children. If the worker is killed, Linux kills the program.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
