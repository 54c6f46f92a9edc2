package shelltest

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// OpenTerminal returns both ends of a terminal.
func OpenTerminal(tb testing.TB) (screen, terminal *os.File) {
	tb.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		tb.Skip(err)
	}
	tb.Cleanup(func() { screen.Close() })
	redistest.Check(tb, unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	redistest.Check(tb, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	redistest.Check(tb, err)
	tb.Cleanup(func() { terminal.Close() })
	return screen, terminal
}
