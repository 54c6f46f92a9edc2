package runner

import (
	"errors"
	"fmt"
	"os"
)

// bodyFile returns a file with the whole body, for a program to read. A pipe would end early if the worker were killed,
// and the program would take a part for the whole. The file disappears when the worker and the program have closed it,
// however they end.
func bodyFile(body string) (*os.File, error) {
	f, err := fleetingFile()
	if err == nil {
		if _, err = f.WriteAt([]byte(body), 0); err != nil { // leaves the read position at 0
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("no room for the job's body: %w", err)
	}
	return f, nil
}
