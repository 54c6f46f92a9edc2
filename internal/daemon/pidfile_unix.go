//go:build !windows

package daemon

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sevlyar/go-daemon"
	"golang.org/x/sys/unix"

	"github.com/mix-basic/delayer/internal/exit"
)

// pidFile is a locked file with this process's ID. The lock keeps a second instance out and ends with the process in any
// case; the ID is for people and scripts. So a file left behind by a crash does no harm. nil stands for no file.
type pidFile struct {
	*daemon.LockFile
	path string
}

const (
	// holderWait is how long the holder of the lock may take to write its ID, or to exit after writing it.
	holderWait = time.Second
	holderPoll = 10 * time.Millisecond
)

// lockPIDFile takes the lock, or returns an error that names its holder. With an empty path it does
// nothing.
func lockPIDFile(path string) (*pidFile, error) {
	if path == "" {
		return nil, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, exit.With(exit.Usage, fmt.Errorf("delayer.pid: %w", err))
	}
	for deadline := time.Now().Add(holderWait); ; time.Sleep(holderPoll) {
		f, holder, err := tryLock(path)
		if err != nil {
			return nil, exit.With(exit.Usage, fmt.Errorf("delayer.pid: %w", err))
		}
		if f != nil {
			return f, nil
		}
		if isAlive(holder) {
			return nil, exit.With(exit.Running, runningError{holder})
		}
		if time.Now().After(deadline) {
			return nil, exit.With(exit.Running, fmt.Errorf("delayer.pid: %s: another process keeps it locked", path))
		}
	}
}

// runningError is the original's message about a second instance.
type runningError struct{ pid int }

func (e runningError) Error() string {
	return fmt.Sprintf("Service is being executed, PID: %d", e.pid)
}

// tryLock returns no file if another process has the lock. In that case it returns the holder's ID, if
// written.
func tryLock(path string) (f *pidFile, holder int, err error) {
	file, err := daemon.OpenLockFile(path, 0o644)
	if err != nil {
		return nil, 0, err
	}
	f = &pidFile{file, path}
	locked, holder, err := f.lock()
	if !locked {
		file.Close()
		return nil, holder, err
	}
	return f, 0, nil
}

// lock locks the open file and writes the ID. It does not lock a file that a stopping instance removed after it was opened,
// because that lock would exclude nobody; holder is 0 then. Nor does it lock the file of a running original, which takes no
// lock itself.
func (f *pidFile) lock() (locked bool, holder int, err error) {
	if err := f.checkContent(); err != nil {
		return false, 0, err
	}
	err = f.Lock()
	holder, _ = f.ReadPid()
	switch {
	case errors.Is(err, daemon.ErrWouldBlock):
		return false, holder, nil
	case err != nil:
		return false, 0, fmt.Errorf("lock %s: %w", f.path, err)
	case !f.isInPlace():
		return false, 0, nil
	case holder != os.Getpid() && isDelayer(holder):
		return false, holder, nil
	}
	err = f.WritePid()
	return err == nil, 0, err
}

// processName returns the names of a process and of its program, as far as the system reveals them. It is empty for a
// process that has ended but was not reaped yet.
func processName(pid int) string {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	program, err := os.Readlink(filepath.Join(proc, "exe"))
	name, notLinux := os.ReadFile(filepath.Join(proc, "comm"))
	switch {
	case notLinux != nil:
		line, _ := exec.Command("ps", "-o", "stat=", "-o", "comm=", "-p", strconv.Itoa(pid)).Output()
		state, path, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
		if strings.HasPrefix(state, "Z") {
			return ""
		}
		return filepath.Base(path)
	case errors.Is(err, os.ErrNotExist): // the process has ended
		return ""
	}
	return filepath.Base(program) + " " + string(name)
}

// checkContent protects other files, or root's /dev/null, from a wrong path.
func (f *pidFile) checkContent() error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errNoRegularFile(f.path)
	}
	content, err := io.ReadAll(io.NewSectionReader(f, 0, 64))
	if err != nil {
		return err
	}
	// A power cut may leave zero bytes in place of the last write.
	if strings.Trim(string(content), "0123456789 \r\n\x00") != "" {
		return fmt.Errorf("%s holds something else than a process ID: want the path of a file of its own, or nothing", f.path)
	}
	return nil
}

// isInPlace reports whether the path still names the open file.
func (f *pidFile) isInPlace() bool {
	ours, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(f.path)
	return err == nil && os.SameFile(ours, there)
}

// release removes the file, unless it was replaced or now belongs to another process, and then unlocks it. In this order no
// other process can lock it in between.
func (f *pidFile) release() {
	if f == nil {
		return
	}
	if pid, _ := f.ReadPid(); pid == os.Getpid() && f.isInPlace() {
		os.Remove(f.path)
	}
	f.Close()
}

// isDelayer reports whether the process is an instance of Delayer, ours or the original.
func isDelayer(pid int) bool { return isAlive(pid) && strings.Contains(processName(pid), "delayer") }

func isAlive(pid int) bool {
	if pid <= 0 {
		return false
	}
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// tryAccess checks whether this process may write the file, or create files in the folder.
func tryAccess(path string, _ bool) error {
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// tryPIDFile is tryFile for a pid file. A pid file locked by a running instance is fine.
func tryPIDFile(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return errNoRegularFile(path) // opening it could block
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return tryFile(path)
	} else if err != nil {
		return err
	}
	defer file.Close()
	return (&pidFile{daemon.NewLockFile(file), path}).checkContent()
}

func errNoRegularFile(path string) error {
	return fmt.Errorf("%s is no regular file: want the path of a file of its own, or nothing", path)
}

// runningInstance returns the process ID of the running instance named by the pid file, or 0.
func runningInstance(path string) int {
	pid, err := daemon.ReadPidFile(path)
	if err != nil || !isDelayer(pid) {
		return 0
	}
	return pid
}
