//go:build !windows

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/sevlyar/go-daemon"
	"golang.org/x/sys/unix"
)

// tryAccess asks the system whether we may write the file, or make files in the folder.
func tryAccess(path string, _ bool) error {
	if err := unix.Faccessat(unix.AT_FDCWD, path, unix.W_OK, unix.AT_EACCESS); err != nil {
		return &fs.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

// tryPIDFile is tryFile for a pid file. One that a running instance holds is fine.
func tryPIDFile(path string) error {
	if path == "" {
		return nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return errNoRegularFile(path) // opening it could keep us waiting
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

// runningInstance is the ID of the instance that the pid file names, 0 if none runs.
func runningInstance(path string) int {
	pid, err := daemon.ReadPidFile(path)
	if err != nil || !isDelayer(pid) {
		return 0
	}
	return pid
}
