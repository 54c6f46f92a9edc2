//go:build !windows

package main

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// signalUntilEnd sends a signal until the program has ended: one that comes too early is a duplicate of the one before.
func (p *process) signalUntilEnd(s syscall.Signal) {
	for {
		select {
		case <-p.exited:
			return
		case <-time.After(exit.SameSignal / 4):
			p.cmd.Process.Signal(s)
		}
	}
}

// SIGHUP is ignored if the program was started by nohup.
func TestNohup(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Nobody(t))
	p := startCommand(t, s.dir, environment(t), exec.Command("/bin/sh", "-c", `trap "" HUP; exec "$0" "$@"`, binary, "-c", s.conf))
	p.expect(p.stdout, started)
	p.signal(syscall.SIGHUP)
	rotate(t, s, p.pid()) // SIGHUP is delivered first
	p.signal(syscall.SIGHUP)
	p.signal(syscall.SIGTERM) // would be the second stop signal, and exit with an error
	if code := p.wait(); code != 0 || !strings.Contains(p.stdout.String(), stopped) {
		t.Errorf("exit code %d: %s", code, p.stdout)
	}
}

// stoppingWhileRedisHangs starts a daemon whose Redis hangs in the middle of a pass, and tells it to stop.
func stoppingWhileRedisHangs(t *testing.T) (site, *process) {
	t.Helper()
	redisServer := redistest.Start(t)
	relay := newRelay(t, redisServer.Addr)
	s := newSite(t, relay.addr, "read_timeout = 3600000")
	p := s.started(t)
	relay.hang(redisServer, p)
	p.signal(syscall.SIGTERM)
	return s, p
}

// A Redis that hangs in the middle of a pass delays the stop, but by less than the promised 5 s.
// The long timeout shows that the stop does not wait for it. The server has 4 s for its last batch, and 0.3 s later the daemon
// ends without it, with another exit code: on a busy machine that may come first, so the test has a few tries.
func TestStopWhileRedisHangs(t *testing.T) {
	t.Parallel()
	for tries := 1; ; tries++ {
		s, p := stoppingWhileRedisHangs(t)
		switch code := p.wait(); {
		case code == exit.Failed && strings.Contains(p.stderr.String(), "it has not stopped within") && tries < 5:
			continue
		case code != 0 || exists(s.pid) || !strings.Contains(read(t, s.access), stopped):
			t.Errorf("exit code %d, pid file %v\n%s%s", code, exists(s.pid), p.stdout, p.stderr)
		}
		return
	}
}

// The second signal ends a slow stop at once. TestStop shows that a signal right after the first is a duplicate.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	s, p := stoppingWhileRedisHangs(t)
	p.signalUntilEnd(syscall.SIGINT)
	code := p.wait()
	if code != exit.Failed || exists(s.pid) || strings.Contains(read(t, s.access), stopped) || !strings.Contains(read(t, s.errors), "by a second signal") {
		t.Errorf("exit code %d, pid file %v\n%s%s", code, exists(s.pid), p.stdout, p.stderr)
	}
}

// A daemon that has not started yet because Redis does not respond can be stopped, too.
func TestStopDuringStart(t *testing.T) {
	t.Parallel()
	mute := newMute(t)
	s := newSite(t, mute.addr)
	p := s.start(t)
	mute.waitForConnection()
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 || exists(s.pid) || p.stdout.String() != "" {
		t.Errorf("exit code %d, pid file %v\n%s%s", code, exists(s.pid), p.stdout, p.stderr)
	}
}

// The daemon survives the end of its console.
func TestConsoleGone(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Nobody(t))
	p := startCommand(t, s.dir, environment(t), exec.Command("/bin/sh", "-c", `"$0" "$@" | head -n 1`, binary, "-c", s.conf))
	p.expect(p.stdout, "____")
	eventually(t, "the daemon has started", func() bool { return exists(s.access) && strings.Contains(read(t, s.access), started) })
	pid, _ := strconv.Atoi(read(t, s.pid))
	rotate(t, s, pid)
	stopDaemon(t, s, syscall.SIGTERM)
	matches(t, "access log", read(t, s.access), infoLine(stopped+strconv.Itoa(pid)))
}
