package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/cli"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/testing/shelltest"
)

// patience is how long a test waits for something that takes a few seconds at most. It only detects
// hanging programs.
const patience = redistest.HangBound

// binary is the program under test, built once.
var binary string

// races is the file for reports of the binary's race detector, because a daemon in the background
// has no stderr.
var races string

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) (code int) {
	if signal.Ignored(syscall.SIGHUP) { // set under nohup; programs under test would inherit it
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	dir, err := os.MkdirTemp("", "delayer-test-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	binary, races = filepath.Join(dir, "delayer"), filepath.Join(dir, "races")
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	if err := build(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	flag.Parse()
	if n := flag.Lookup("test.parallel"); n.Value.String() == n.DefValue { // tests of processes wait more than they work
		n.Value.Set("8")
	}
	code = m.Run()
	found, _ := filepath.Glob(races + "*")
	for _, path := range found {
		report, _ := os.ReadFile(path)
		fmt.Fprintf(os.Stderr, "race in the program:\n%s", report)
		code = 1
	}
	return code
}

// build builds the program with the test's own flags, so that each package is compiled only once.
func build() error {
	info, _ := debug.ReadBuildInfo()
	args := []string{"build", "-o", binary}
	for _, setting := range info.Settings {
		if setting.Key == "-race" || setting.Key == "-trimpath" {
			args = append(args, setting.Key+"="+setting.Value)
		}
	}
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %v\n%s", err, out)
	}
	return nil
}

// environment is shelltest.Environment with settings of the race detector.
func environment(tb testing.TB, variables ...string) []string {
	return shelltest.Environment(tb, append([]string{"GORACE=atexit_sleep_ms=0 log_path=" + races}, variables...)...)
}

// process is a running program. It collects the output; a test can wait for lines of it.
type process struct {
	tb             testing.TB
	cmd            *exec.Cmd
	stdout, stderr *output
	exited         chan struct{}
}

// startBinary starts the program in dir. The end of the test kills it if it still runs.
func startBinary(tb testing.TB, dir string, env []string, args ...string) *process {
	tb.Helper()
	return startCommand(tb, dir, env, exec.Command(binary, args...))
}

// startCommand starts cmd, and collects output that is not redirected.
func startCommand(tb testing.TB, dir string, env []string, cmd *exec.Cmd) *process {
	tb.Helper()
	p := &process{tb: tb, cmd: cmd, stdout: new(output), stderr: new(output), exited: make(chan struct{})}
	cmd.Dir, cmd.Env = dir, env
	cmd.Stdout, cmd.Stderr = cmp.Or[io.Writer](cmd.Stdout, p.stdout), cmp.Or[io.Writer](cmd.Stderr, p.stderr)
	check(tb, cmd.Start())
	go func() {
		cmd.Wait()
		close(p.exited)
	}()
	tb.Cleanup(func() {
		cmd.Process.Kill()
		<-p.exited
	})
	return p
}

// wait waits for the program's end and returns its exit code.
func (p *process) wait() int {
	p.tb.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.tb.Fatalf("%v still runs after %v\nstdout: %s\nstderr: %s", p.cmd.Args, patience, p.stdout, p.stderr)
	}
	return p.cmd.ProcessState.ExitCode()
}

// ends waits for the program's end and checks its exit code.
func (p *process) ends(code int) {
	p.tb.Helper()
	if got := p.wait(); got != code {
		p.tb.Errorf("exit code %d, want %d: %s", got, code, p.stderr)
	}
}

// expect waits until the output contains text.
func (p *process) expect(out *output, text string) {
	p.tb.Helper()
	if !p.says(out, text) {
		p.tb.Fatalf("%v ended (%v) without %q\nstdout: %s\nstderr: %s", p.cmd.Args, p.cmd.ProcessState, text, p.stdout, p.stderr)
	}
}

// says waits until the output contains text. It returns false if the program ends first.
func (p *process) says(out *output, text string) bool {
	p.tb.Helper()
	for bound := time.After(patience); !strings.Contains(out.String(), text); {
		select {
		case <-p.exited:
			return strings.Contains(out.String(), text)
		case <-bound:
			p.tb.Fatalf("%v has not said %q in %v\nstdout: %s\nstderr: %s", p.cmd.Args, text, patience, p.stdout, p.stderr)
		case <-time.After(2 * time.Millisecond):
		}
	}
	return true
}

// output is a program's output.
type output struct{ redistest.Log }

func (o *output) String() string { return strings.Join(o.Lines(), "") }

// result is the outcome of a program that has ended.
type result struct {
	stdout, stderr string
	code           int
}

// runBinary runs the program in dir until it ends.
func runBinary(tb testing.TB, dir string, env []string, args ...string) result {
	tb.Helper()
	return runCommand(tb, dir, env, exec.Command(binary, args...))
}

func runCommand(tb testing.TB, dir string, env []string, cmd *exec.Cmd) result {
	tb.Helper()
	p := startCommand(tb, dir, env, cmd)
	code := p.wait()
	return result{p.stdout.String(), p.stderr.String(), code}
}

// runHere runs a command line in this process, which costs a tenth of starting the program. Tests that are not about a process
// use it, one at a time: environment and folder belong to the whole process.
func runHere(tb testing.TB, env []string, args ...string) (r result) {
	tb.Helper()
	stdout, readOut := pipe(tb)
	stderr, readErr := pipe(tb)
	shelltest.In(env, func() { r.code = cli.Main(args, stdout, stderr, version) })
	signal.Reset(os.Interrupt, syscall.SIGTERM) // the program handles them until it ends
	stdout.Close()
	stderr.Close()
	r.stdout, r.stderr = <-readOut, <-readErr
	return r
}

// pipe returns an output, and what was written once that is closed.
func pipe(tb testing.TB) (w *os.File, written chan string) {
	tb.Helper()
	r, w, err := os.Pipe()
	check(tb, err)
	written = make(chan string, 1)
	go func() {
		defer r.Close()
		text, _ := io.ReadAll(r)
		written <- string(text)
	}()
	return w, written
}

// eventually waits until a condition holds.
var eventually = redistest.Until

// check fails the test on an error.
var check = redistest.Check

var read, write, shellWords = shelltest.Read, shelltest.Write, shelltest.Words

// timeFormat is the form of times in tables.
const timeFormat = "2006/01/02 15:04:05.000"

func exists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, os.ErrNotExist)
}
