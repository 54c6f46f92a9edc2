package daemon

import (
	"errors"
	"os"

	"github.com/mix-basic/delayer/internal/exit"
)

func serveInBackground(Options, *os.File, *os.File) error {
	return exit.With(exit.Usage, errors.New("-d does not apply on Windows: leave it out, or let a service manager run delayer"))
}
