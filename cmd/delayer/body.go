package main

import (
	"errors"
	"fmt"
	"os"
)

// bodyFile returns a file with the whole body, for a program to read. If we were killed, a pipe would end early and the
// program would take the beginning for the whole. The file is gone when we and the program have closed it, however we
// end.
func bodyFile(body string) (*os.File, error) {
	f, err := fleetingFile()
	if err == nil {
		if _, err = f.WriteAt([]byte(body), 0); err != nil { // from where it is read
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("no room for the job's body: %w", err)
	}
	return f, nil
}
