package logger

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
	"testing"
)

// disk is a file on a disk with a limited number of free bytes.
type disk struct {
	free int
	text strings.Builder
}

func (d *disk) Write(p []byte) (int, error) {
	n := min(d.free, len(p))
	d.free -= n
	d.text.Write(p[:n])
	if n < len(p) {
		return n, &fs.PathError{Op: "write", Path: "/full", Err: syscall.ENOSPC}
	}
	return n, nil
}

func (d *disk) Close() error { return errors.New("closing fails") }

func line(level, message string) string { return "[" + level + "] " + stamp + message + "\n" }

func TestAFullDiskIsToldOnceAndItsEndToo(t *testing.T) {
	var console writes
	full, other := &disk{free: 30}, &disk{free: 1 << 20}
	l := open(t, Options{Console: &console})
	l.access, l.errors = &file{path: "/full", out: full}, &file{path: "/other", out: other}

	l.Info("1") // 29 bytes: fits
	l.Info("2") // cut after one byte
	l.Info("3")
	l.Error("e")
	full.free = 1 << 20
	l.Info("4")
	l.Info("5")
	full.free = 0
	l.Info("6")
	l.Info("7")
	full.free = 1 << 20
	l.Info("8")
	l.DrainConsole()

	begins := line("error", "/full can't be written, its lines are lost: "+syscall.ENOSPC.Error())
	ends := line("info", "/full is written again, lines lost: 2")
	check(t, "file", full.text.String(), line("info", "1")+"[\n"+line("info", "4")+line("info", "5")+line("info", "8"))
	check(t, "error log", other.text.String(), begins+line("error", "e")+ends+begins+ends)
	console.expect(t, line("info", "1"), line("info", "2"), begins, line("info", "3"), line("error", "e"),
		line("info", "4"), ends, line("info", "5"), line("info", "6"), begins, line("info", "7"), line("info", "8"), ends)
}

// If the error log fails as well, each failure is reported once.
func TestEveryFileMayFail(t *testing.T) {
	var console writes
	l := open(t, Options{Console: &console, JSON: true})
	l.access, l.errors = &file{path: "/a", out: &disk{}}, &file{path: "/e", out: &disk{}}
	for range 3 {
		l.Info("i")
		l.Error("e")
	}
	l.DrainConsole()
	told := 0
	for _, c := range console {
		told += strings.Count(c, "can't be written")
	}
	if len(console) != 8 || told != 2 {
		t.Errorf("console: %q, want six lines, and each file's failure once", console)
	}
}

func TestATornLineEndsBeforeTheNext(t *testing.T) {
	full := &disk{free: 5}
	f := &file{path: "/full", out: full}
	f.write([]byte("\nfirst\n"))  // without its line break
	f.write([]byte("\nsecond\n")) // nothing
	full.free = 1
	f.write([]byte("\nthird\n")) // the line break alone
	full.free = 100
	f.write([]byte("\nfourth\n"))
	check(t, "file", full.text.String(), "first\nfourth\n")

	full.free = 2
	f.write([]byte("\nfifth\n"))
	fresh := &disk{free: 100}
	f.replace(fresh)
	f.write([]byte("\nsixth\n"))
	check(t, "a new file", fresh.text.String(), "sixth\n")
}

func TestCloseTellsWhatFails(t *testing.T) {
	l := open(t, Options{})
	l.access = &file{path: "/full", out: &disk{}}
	if err := l.Close(); err == nil || err.Error() != "closing fails" {
		t.Errorf("Close: %v", err)
	}
}
