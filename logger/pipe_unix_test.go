//go:build !windows

package logger

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/internal/async"
)

func newPipe(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(path, 0o600))
	return path
}

// fill fills the pipe until the end of the test, so that nothing more fits in, now or later.
func fill(t *testing.T, path string) {
	t.Helper()
	fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_NONBLOCK, 0)
	must(t, err)
	t.Cleanup(func() { syscall.Close(fd) })
	for size := 4096; size > 0; {
		if _, err := syscall.Write(fd, make([]byte, size)); err == syscall.EAGAIN {
			size /= 2
		} else if err != syscall.EINTR {
			must(t, err)
		}
	}
}

// A log may be a pipe that is read later.
func TestPipeThatIsReadLater(t *testing.T) {
	path := newPipe(t)
	l := open(t, Options{AccessLog: path})
	l.Info("1")
	must(t, l.Reopen())
	l.Info("2")
	reader, err := os.Open(path)
	must(t, err)
	defer reader.Close()
	must(t, l.Close())
	text, err := io.ReadAll(reader)
	must(t, err)
	check(t, "pipe", string(text), line("info", "1")+line("info", "2"))
}

// A pipe that is never read delays nobody, neither when it is full nor at the end, and lost lines are
// reported.
func TestPipeThatIsNeverRead(t *testing.T) {
	path, errorLog := newPipe(t), filepath.Join(t.TempDir(), "e")
	fill(t, path)
	l := open(t, Options{AccessLog: path, ErrorLog: errorLog})
	for range 2 * async.MaxPending / 1000 {
		l.Info(strings.Repeat("x", 1000))
	}
	check(t, "error log", read(t, errorLog), line("error", path+" can't be written, its lines are lost: it is not read"))
	err := l.Close()
	if err == nil || !strings.HasPrefix(err.Error(), "close "+path+": it is not read, lines lost: ") {
		t.Fatalf("Close: %v", err)
	}
	if log := read(t, errorLog); !strings.HasSuffix(log, strings.TrimPrefix(line("error", err.Error()), "[error] "+stamp+"close ")) {
		t.Errorf("error log: %s", log)
	}
}

// A pipe that can only be written is refused if opening it would block.
func TestPipeForWritingOnly(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	path := newPipe(t)
	must(t, os.Chmod(path, 0o200))
	if _, err := Open(Options{AccessLog: path}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("Open: %v", err)
	}
}
