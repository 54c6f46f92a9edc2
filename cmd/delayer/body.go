package main

import (
	"errors"
	"fmt"
	"os"
)

// bodyFile is a file with all of a body, for a program to read. A pipe would end in the midst of it if
// we were killed, and the program would take that for all. The file is gone when we and the program
// have closed it, however we end.
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
