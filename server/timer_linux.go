package server

import (
	"os"
	"syscall"
	"time"
	"unsafe"
)

// fileTimer is a timerfd. Go's poller waits for it as for a connection, which is precise; its own timers are up to
// 1 ms late, because it waits for them in whole milliseconds.
type fileTimer struct {
	file  *os.File
	fd    syscall.RawConn
	fired [8]byte // how many times, as the kernel counts
}

func newTimer() timer {
	const monotonic = 1
	fd, _, err := syscall.RawSyscall(syscall.SYS_TIMERFD_CREATE, monotonic, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if err != 0 {
		return newGoTimer() // a sandbox may forbid it
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

func (t *fileTimer) wait()  { t.file.Read(t.fired[:]) }
func (t *fileTimer) close() { t.file.Close() }
