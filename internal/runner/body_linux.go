package runner

import (
	"os"

	"golang.org/x/sys/unix"
)

// fleetingFile creates a file that never has a name, if the file system supports that.
func fleetingFile() (*os.File, error) {
	if f, err := os.OpenFile(os.TempDir(), os.O_RDWR|unix.O_TMPFILE, 0o600); err == nil {
		return f, nil
	}
	return namelessFile()
}
