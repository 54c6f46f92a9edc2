package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// fleetingFile makes a file that never has a name, where the file system can do that.
func fleetingFile() (*os.File, error) {
	if f, err := os.OpenFile(os.TempDir(), os.O_RDWR|unix.O_TMPFILE, 0o600); err == nil {
		return f, nil
	}
	return namelessFile()
}
