//go:build !windows && !linux

package runner

import (
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ownGroup puts the program into its own process group: a terminal's ctrl-C stops the worker and not its programs,
// and a program can be killed with its children.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// awaitEnd waits for the end of a program without reaping it.
func awaitEnd(pid int) {
	queue, err := unix.Kqueue()
	for ; err != nil; queue, err = unix.Kqueue() { // too many open files
		time.Sleep(100 * time.Millisecond)
	}
	defer unix.Close(queue)
	unix.CloseOnExec(queue)
	exit := make([]unix.Kevent_t, 1)
	unix.SetKevent(&exit[0], pid, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	exit[0].Fflags = unix.NOTE_EXIT
	for err = unix.EINTR; err == unix.EINTR; { // ESRCH: already ended
		_, err = unix.Kevent(queue, exit, exit, nil)
	}
}
