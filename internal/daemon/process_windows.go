package daemon

import (
	"errors"
	"os"

	"github.com/mix-basic/delayer/internal/exit"
)

func serveInBackground(Options, *os.File, *os.File) error {
	return exit.With(exit.Usage, errors.New("-d does not apply on Windows: leave it out, or let a service manager run delayer"))
}

// tryAccess opens the file, or briefly creates a file in the folder. There is no other reliable check.
func tryAccess(path string, isFolder bool) error {
	if !isFolder {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		return f.Close()
	}
	f, err := os.CreateTemp(path, "delayer-check-*")
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}

func tryPIDFile(string) error { return nil }

func runningInstance(string) int { return 0 }

// pidFile does nothing on Windows, where nobody would send signals to the ID.
type pidFile struct{}

func lockPIDFile(string) (*pidFile, error) { return nil, nil }

func (*pidFile) release() {}
