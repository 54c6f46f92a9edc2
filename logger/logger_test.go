package logger

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

var instant = time.Date(2018, 10, 21, 11, 24, 4, 5_600_000, time.FixedZone("", 2*3600))

const stamp = "2018/10/21 11:24:04 "

var must = redistest.Check

// open opens a logger with a fixed time.
func open(t *testing.T, o Options) *Logger {
	t.Helper()
	l, err := Open(o)
	must(t, err)
	l.now = func() time.Time { return instant }
	t.Cleanup(func() { l.Close() })
	return l
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

func check(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// writes records each Write. Read it after the console is closed.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

// expect compares a closed console.
func (w writes) expect(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(w, want) {
		t.Errorf("console:\n got %.500q\nwant %.500q", w, want)
	}
}

func TestLinesGoToTheirFileAndTheConsole(t *testing.T) {
	dir := t.TempDir()
	access, errorLog := filepath.Join(dir, "a", "b", "access.log"), filepath.Join(dir, "error.log")
	must(t, os.WriteFile(errorLog, []byte("from before\n"), 0o600))
	var console writes
	l := open(t, Options{AccessLog: access, ErrorLog: errorLog, Console: &console})
	l.Info("Job is ready, Topic: close_order, IDs: [id1,id2]")
	l.Error("redis is away")
	l.Info("")
	l.DrainConsole()

	const first = "[info] " + stamp + "Job is ready, Topic: close_order, IDs: [id1,id2]\n"
	const second = "[error] " + stamp + "redis is away\n"
	const third = "[info] " + stamp + "\n"
	check(t, "access log", read(t, access), first+third)
	check(t, "error log", read(t, errorLog), "from before\n"+second)
	console.expect(t, first, second, third)
	if info, err := os.Stat(filepath.Dir(access)); runtime.GOOS != "windows" && (err != nil || info.Mode().Perm()&^0o755 != 0) {
		t.Errorf("folder: %v, %v; want at most 0755", info.Mode(), err)
	}
}

func TestTimeIsLocalAndNow(t *testing.T) {
	var console writes
	l, _ := Open(Options{Console: &console})
	before := time.Now().Truncate(time.Second)
	l.Info("x")
	l.Close()
	got, err := time.ParseInLocation("[info] 2006/01/02 15:04:05 x\n", console[0], time.Local)
	if err != nil || got.Before(before) || got.After(time.Now()) {
		t.Errorf("%q: %v, %v; want now in local time", console[0], got, err)
	}
}

func TestFilesAndConsoleAreOptional(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "one.log")
	l := open(t, Options{AccessLog: path})
	l.Info("a")
	l.Error("nowhere")
	check(t, "access log", read(t, path), "[info] "+stamp+"a\n")

	var console writes
	l = open(t, Options{Console: &console})
	l.Info("a")
	l.Error("b")
	l.DrainConsole()
	console.expect(t, "[info] "+stamp+"a\n", "[error] "+stamp+"b\n")
	if err := l.Reopen(); err != nil {
		t.Errorf("Reopen without files: %v", err)
	}
}

func TestZeroValueDiscards(t *testing.T) {
	var l Logger
	l.Info("a")
	l.Error("b")
	if err := errors.Join(l.Reopen(), l.Close()); err != nil {
		t.Error(err)
	}
}

func TestSamePathIsOneFile(t *testing.T) {
	t.Chdir(t.TempDir())
	l := open(t, Options{AccessLog: "both.log", ErrorLog: "./x/../both.log"})
	if l.access != l.errors {
		t.Error("the file is open twice")
	}
	l.Info("a")
	l.Error("b")
	check(t, "log", read(t, "both.log"), "[info] "+stamp+"a\n[error] "+stamp+"b\n")
}

func TestOpenNamesTheFileThatFails(t *testing.T) {
	dir := t.TempDir()
	for _, o := range []Options{
		{AccessLog: dir},
		{ErrorLog: dir},
		{AccessLog: filepath.Join(dir, "fine"), ErrorLog: dir},
		{ErrorLog: filepath.Join(dir, "fine", "x")}, // fine is a file by now
	} {
		l, err := Open(o)
		var at *fs.PathError
		if l != nil || !errors.As(err, &at) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%+v: %v, %v; want an error with the path", o, l, err)
		}
	}
	if _, err := Open(Options{ErrorLog: dir}); !strings.HasPrefix(err.Error(), "error log: ") {
		t.Errorf("%v: want the log named", err)
	}
}

func TestClose(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.log")
	var console writes
	l := open(t, Options{AccessLog: path, ErrorLog: path, Console: &console})
	l.Info("a")
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Errorf("Close twice: %v", err)
	}
	l.Info("b")
	l.Print("c\n")
	if err := l.Reopen(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Reopen after Close: %v, want os.ErrClosed", err)
	}
	check(t, "log", read(t, path), "[info] "+stamp+"a\n")
	console.expect(t, "[info] "+stamp+"a\n")
}

// rename renames a log as logrotate does, if the system allows that for an open file.
func rename(t *testing.T, from, to string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("an open log can't be renamed")
	}
	must(t, os.Rename(from, to))
}

func TestReopenFollowsARename(t *testing.T) {
	t.Chdir(t.TempDir())
	l := open(t, Options{AccessLog: "a.log", ErrorLog: "e.log"})
	l.Info("1")
	rename(t, "a.log", "a.log.1")
	l.Info("2")
	t.Chdir("/") // the daemon may have changed to /
	must(t, l.Reopen())
	l.Info("3")
	l.Error("4")
	dir := filepath.Dir(l.access.path)
	check(t, "old", read(t, filepath.Join(dir, "a.log.1")), "[info] "+stamp+"1\n[info] "+stamp+"2\n")
	check(t, "new", read(t, filepath.Join(dir, "a.log")), "[info] "+stamp+"3\n")
	check(t, "errors", read(t, filepath.Join(dir, "e.log")), "[error] "+stamp+"4\n")
}

func TestReopenThatFailsKeepsTheOldFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	l := open(t, Options{AccessLog: "a.log", ErrorLog: "e.log"})
	rename(t, "a.log", "a.log.1")
	rename(t, "e.log", "e.log.1")
	must(t, os.Mkdir("e.log", 0o700))
	var at *fs.PathError
	if err := l.Reopen(); !errors.As(err, &at) || at.Path != l.errors.path {
		t.Errorf("Reopen: %v, want an error that names e.log", err)
	}
	l.Info("1")
	l.Error("2")
	check(t, "old access log", read(t, "a.log.1"), "[info] "+stamp+"1\n")
	check(t, "old error log", read(t, "e.log.1"), "[error] "+stamp+"2\n")
}

func TestReopenLosesNothing(t *testing.T) {
	const writers, each, reopens = 8, 300, 30
	t.Chdir(t.TempDir())
	l := open(t, Options{AccessLog: "log", ErrorLog: "log", Console: &bytes.Buffer{}})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if i%2 == 0 {
					l.Info(fmt.Sprintf("%d-%d", w, i))
				} else {
					l.Error(fmt.Sprintf("%d-%d", w, i))
				}
			}
		})
	}
	for i := range reopens {
		rename(t, "log", fmt.Sprintf("log.%d", i))
		must(t, l.Reopen())
	}
	wg.Wait()

	var got, want []string
	files, _ := filepath.Glob("log*")
	if len(files) != reopens+1 {
		t.Errorf("%d files, want %d", len(files), reopens+1)
	}
	for _, name := range files {
		for line := range strings.Lines(read(t, name)) {
			got = append(got, line)
		}
	}
	for w := range writers {
		for i := range each {
			want = append(want, fmt.Sprintf("[%s] %s%d-%d\n", []string{"info", "error"}[i%2], stamp, w, i))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%d lines found, want each of %d exactly once", len(got), len(want))
	}
}

func TestConcurrentUse(t *testing.T) {
	t.Chdir(t.TempDir())
	l := open(t, Options{AccessLog: "log"})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { l.Info("x") })
		wg.Go(func() { l.Reopen() })
	}
	wg.Go(func() { l.Close() })
	wg.Wait()
}

func TestALineOf30KBCostsNoAllocation(t *testing.T) {
	l := open(t, Options{AccessLog: filepath.Join(t.TempDir(), "log")})
	message := "IDs: [" + strings.Repeat("4b91d0a3c7e2f6580000000000005632,", 1000) + "]"
	if n := testing.AllocsPerRun(20, func() { l.Info(message) }); n > 0 {
		t.Errorf("%v allocations a line", n)
	}
	log, ids := slog.New(l.Handler()), slog.AnyValue(sameIDs(slices.Repeat([][]byte{[]byte("4b91d0a3c7e2f6580000000000005632")}, 1000)))
	if n := testing.AllocsPerRun(20, func() {
		log.LogAttrs(t.Context(), slog.LevelInfo, "Job is ready", slog.String("topic", "t"), slog.Attr{Key: "ids", Value: ids})
	}); n > 0 {
		t.Errorf("%v allocations a line of jobs", n)
	}
	l.Info(strings.Repeat("x", maxKept+1))
	l.Info("x")
	if kept := max(l.format.buffer.Cap(), cap(l.format.text)); kept > maxKept {
		t.Errorf("%d bytes kept after a huge line", kept)
	}
}
