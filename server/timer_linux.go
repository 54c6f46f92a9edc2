package server

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// fileTimer is one of the kernel's, for which Go's poller waits like for a connection. Its own
// timers are up to a millisecond late, as it waits whole milliseconds for them.
type fileTimer struct {
	file *os.File
	fd   syscall.RawConn
	rung [8]byte // how often it has
}

func newTimer() timer {
	const monotonic = 1
	fd, _, err := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, monotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != 0 {
		return newGoTimer() // as where it is forbidden
	}
	file := os.NewFile(fd, "timer")
	raw, _ := file.SyscallConn()
	return &fileTimer{file: file, fd: raw}
}

func (t *fileTimer) reset(d time.Duration) {
	setting := struct{ interval, value syscall.Timespec }{
		value: syscall.NsecToTimespec(int64(max(d, 1))), // 0 would stop it
	}
	t.fd.Control(func(fd uintptr) {
		syscall.RawSyscall6(syscall.SYS_TIMERFD_SETTIME, fd, 0, uintptr(unsafe.Pointer(&setting)), 0, 0, 0)
	})
}

func (t *fileTimer) wait()  { t.file.Read(t.rung[:]) }
func (t *fileTimer) close() { t.file.Close() }
