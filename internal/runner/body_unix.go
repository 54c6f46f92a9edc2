//go:build !windows

package runner

import "os"

// fleetingFile creates a file and removes its name.
func fleetingFile() (*os.File, error) {
	f, err := os.CreateTemp("", "delayer-body-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
