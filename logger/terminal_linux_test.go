package logger

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mix-basic/delayer/internal/async"
)

// A paused terminal delays nobody.
func TestPausedTerminal(t *testing.T) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer master.Close()
	must(t, unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	must(t, err)
	l := open(t, Options{AccessLog: fmt.Sprintf("/dev/pts/%d", n)})
	for range 2 * async.MaxPending / 1000 {
		l.Info(strings.Repeat("x", 1000))
	}
	if err := l.Close(); err == nil || !strings.Contains(err.Error(), "it is not read") {
		t.Errorf("Close: %v", err)
	}
}
