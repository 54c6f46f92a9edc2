package main

import (
	"errors"
	"io"
)

func serveInBackground(options, io.Writer, io.Writer) error {
	return fail(exitUsage, errors.New("-d does not apply on Windows: leave it out, or let a service manager run delayer"))
}
