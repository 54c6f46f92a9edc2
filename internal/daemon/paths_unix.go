//go:build !windows

package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/sevlyar/go-daemon"
	"golang.org/x/sys/unix"
)

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
