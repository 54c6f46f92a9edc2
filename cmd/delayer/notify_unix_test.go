//go:build !windows

package main

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// systemd is a socket that receives the status of a service.
type systemd struct {
	tb   testing.TB
	path string
	conn *net.UnixConn
}

func startSystemd(tb testing.TB) systemd {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	check(tb, err)
	tb.Cleanup(func() { conn.Close() })
	return systemd{tb, path, conn}
}

func (s systemd) environment() []string {
	return environment(s.tb, "NOTIFY_SOCKET="+s.path, "WATCHDOG_USEC=400000")
}

// hears waits for a message that contains all words, and returns the earlier messages.
func (s systemd) hears(words ...string) (before string) {
	s.tb.Helper()
	buffer := make([]byte, 4096)
	for {
		s.conn.SetReadDeadline(time.Now().Add(patience))
		n, err := s.conn.Read(buffer)
		if err != nil {
			s.tb.Fatalf("no message with %q: %v; before: %s", words, err, before)
		}
		message := string(buffer[:n])
		missing := false
		for _, word := range words {
			missing = missing || !strings.Contains(message, word)
		}
		if !missing {
			return before
		}
		before += message + "\n"
	}
}

// The service reports to systemd when it is ready, its status, and when it stops. It feeds the watchdog even while
// Redis hangs.
func TestNotify(t *testing.T) {
	redistest.Long(t)
	db, manager := redistest.Start(t), startSystemd(t)
	s := newSite(t, db.Addr, "connect_timeout = 200", "read_timeout = 200", "write_timeout = 200")
	p := startBinary(t, s.dir, manager.environment(), "-c", s.conf)
	manager.hears("READY=1", "STATUS=0 jobs delivered")
	p.delivers(db.Fixture)
	manager.hears("STATUS=1 jobs delivered, 0.")
	manager.hears("WATCHDOG=1")
	db.Hang()
	manager.hears("STATUS=waiting for Redis: ")
	for range 5 {
		manager.hears("WATCHDOG=1")
	}
	db.Continue()
	manager.hears("STATUS=1 jobs delivered, 0.0 a second")
	p.signal(syscall.SIGTERM)
	manager.hears("STOPPING=1")
	p.ends(0)
}

// A service is ready even if Redis is down: it waits by itself.
func TestNotifyWithoutRedis(t *testing.T) {
	for name, lines := range map[string]string{"single": "", "cluster": "cluster = 127.0.0.1:1\npartitions = 2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manager := startSystemd(t)
			s := newSite(t, "127.0.0.1:1", lines)
			if lines != "" {
				s.change(t, "host = 127.0.0.1\nport = 1\n", "")
			}
			p := startBinary(t, s.dir, manager.environment(), "-c", s.conf)
			if before := manager.hears("STATUS=waiting for Redis: ", "READY=1"); strings.Contains(before, "READY") {
				t.Errorf("ready before: %s", before)
			}
			manager.hears("WATCHDOG=1")
			p.stopped()
		})
	}
}
