package main

import (
	"errors"
	"os"
)

func serveInBackground(options, *os.File, *os.File) error {
	return fail(exitUsage, errors.New("-d does not apply on Windows: leave it out, or let a service manager run delayer"))
}
