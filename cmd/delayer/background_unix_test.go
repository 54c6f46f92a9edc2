//go:build !windows

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// detached checks, where the system shows it, that the daemon has kept nothing of its starter.
func detached(tb testing.TB, pid string) {
	if !exists("/proc/self/fd/1") {
		return
	}
	for link, want := range map[string]string{"cwd": "/", "fd/0": os.DevNull, "fd/1": os.DevNull, "fd/2": os.DevNull} {
		eventually(tb, link+" of the daemon is "+want, func() bool {
			got, err := os.Readlink(filepath.Join("/proc", pid, link))
			return err == nil && got == want
		})
	}
}

// Relative paths in a file that was searched for, which is printed, count from the starting folder too, even for logs
// that are reopened much later.
func TestBackgroundWithRelativePaths(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Nobody(t))
	s.change(t, s.dir, ".")
	s.change(t, s.dir, ".")
	s.change(t, s.dir, ".")
	if r := runBinary(t, s.dir, environment(t), "--daemon"); r.code != 0 || !strings.HasPrefix(r.stdout, bannerStart+"Configuration:\tdelayer.conf\n[info] ") {
		t.Fatalf("%+v", r)
	}
	pid, _ := strconv.Atoi(read(t, s.pid))
	rotate(t, s, pid)
	stopDaemon(t, s, syscall.SIGTERM)
	matches(t, "access log", read(t, s.access), infoLine(stopped+strconv.Itoa(pid)))
}

// A daemon in the background uses the Redis of --redis, which ps does not show.
func TestBackgroundWithURL(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Nobody(t))
	db := redistest.Start(t)
	if r := runBinary(t, s.dir, environment(t), "-d", "-c", s.conf, "--redis", "redis://"+db.Addr); r.code != 0 || strings.Contains(r.stdout, "Redis has not responded yet") {
		t.Fatalf("%+v", r)
	}
	if line, err := os.ReadFile("/proc/" + read(t, s.pid) + "/cmdline"); err == nil && strings.Contains(string(line), db.Addr) {
		t.Errorf("ps shows %q", line)
	}
	stopDaemon(t, s, syscall.SIGTERM)
}

// Ctrl-C while the daemon starts and Redis does not respond leaves no daemon behind.
func TestInterruptedBackground(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			mute := newMute(t)
			s := newSite(t, mute.addr)
			p := s.start(t, "-d")
			mute.waitForConnection()
			p.signal(signal)
			code := p.wait()
			if code != exit.Interrupted || p.stdout.String() != "" || p.stderr.String() != "ERROR: interrupted: the service is stopped again\n" {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, p.stdout, p.stderr)
			}
			if exists(s.pid) {
				t.Error("the pid file is left")
			}
		})
	}
}

// A daemon whose starter was killed can't report its start, and exits.
func TestBackgroundWithoutParent(t *testing.T) {
	t.Parallel()
	mute := newMute(t)
	s := newSite(t, mute.addr)
	p := s.start(t, "-d")
	mute.waitForConnection()
	p.signal(syscall.SIGKILL)
	p.wait()
	close(mute.hangUp)
	eventually(t, "the daemon has ended", func() bool { return !exists(s.pid) })
	if log := read(t, s.errors); !strings.Contains(log, "the process that started the service has gone") {
		t.Errorf("error log: %q", log)
	}
}

// The trace of a crash without a console is in the error log, also after a rotation.
func TestCrashTrace(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Nobody(t))
	if r := runBinary(t, s.dir, environment(t), "-d", "-c", s.conf); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	pid, _ := strconv.Atoi(read(t, s.pid))
	rotate(t, s, pid)
	// The log exists briefly before traces are redirected to it.
	eventually(t, "traces are led to the new log", func() bool { return !exists("/proc/self/fd/1") || timesOpen(pid, s.errors) == 2 })
	syscall.Kill(pid, syscall.SIGABRT)
	eventually(t, "the trace is in the error log", func() bool {
		return strings.Contains(read(t, s.errors)+read(t, s.errors+".1"), "SIGABRT")
	})
}

// timesOpen counts a process's open descriptors of the file. It works on Linux.
func timesOpen(pid int, path string) (n int) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == path {
			n++
		}
	}
	return n
}
