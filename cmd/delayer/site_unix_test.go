//go:build !windows

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/exit"
)

// site is a folder with all files of one daemon.
type site struct {
	dir, conf, pid, access, errors string
}

// newSite writes a configuration for the Redis at addr, with more lines for the [redis] section.
// The folder's name contains a space.
func newSite(tb testing.TB, addr string, lines ...string) site {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "a site")
	host, port, err := net.SplitHostPort(addr)
	check(tb, err)
	s := site{
		dir:    dir,
		conf:   filepath.Join(dir, "delayer.conf"),
		pid:    filepath.Join(dir, "run", "delayer.pid"),
		access: filepath.Join(dir, "logs", "access.log"),
		errors: filepath.Join(dir, "logs", "error.log"),
	}
	write(tb, s.conf, fmt.Sprintf("[delayer]\npid = %s\ntimer_interval = 10\naccess_log = %s\nerror_log = %s\n[redis]\nhost = %s\nport = %s\n%s\n",
		s.pid, s.access, s.errors, host, port, strings.Join(lines, "\n")))
	tb.Cleanup(func() { s.kill(tb) })
	return s
}

// start starts a daemon.
func (s site) start(tb testing.TB, args ...string) *process {
	tb.Helper()
	return startBinary(tb, s.dir, environment(tb), append(args, "-c", s.conf)...)
}

// started starts a daemon and waits until it is ready.
func (s site) started(tb testing.TB, args ...string) *process {
	tb.Helper()
	p := s.start(tb, args...)
	p.expect(p.stdout, started)
	return p
}

// acknowledged waits until the job is gone.
func (s site) acknowledged(tb testing.TB, id string) {
	tb.Helper()
	eventually(tb, "the job is acknowledged", func() bool {
		return runBinary(tb, s.dir, environment(tb), "get", "-c", s.conf, id).code == exit.Nothing
	})
}

// kill kills a daemon left by a failed test. The lock shows that it still runs.
func (s site) kill(tb testing.TB) {
	f, err := os.Open(s.pid)
	if err != nil {
		return
	}
	defer f.Close()
	for syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		if pid, err := strconv.Atoi(read(tb, s.pid)); err == nil {
			syscall.Kill(pid, syscall.SIGKILL)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// change replaces text in the configuration.
func (s site) change(tb testing.TB, old, replacement string) {
	tb.Helper()
	before := read(tb, s.conf)
	after := strings.Replace(before, old, replacement, 1)
	if after == before {
		tb.Fatalf("%q is not in %s", old, before)
	}
	write(tb, s.conf, after)
}
