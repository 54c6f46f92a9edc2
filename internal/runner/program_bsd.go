//go:build !windows && !linux

package runner

import (
	"os/exec"
	"syscall"
)

// ownGroup puts the program into its own process group, see program_linux.go.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }
