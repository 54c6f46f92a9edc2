// Package redistest starts private redis-servers for tests. Each has its own folder, its own
// loopback port and its own process, so that a test can kill, hang or fill it. A Fixture gives a
// test access to a Redis: commands, the whole state, statistics and users. The rest supports tests:
// waiting for events, reading logs, cutting and slowing connections.
package redistest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// startWait bounds a server's start, which usually takes 20 ms.
const startWait = 20 * time.Second

// Server is a private redis-server.
type Server struct {
	// Fixture has the address, which stays the same after a Restart.
	*Fixture
	// Dir is the server's working folder.
	Dir string

	args []string
	cmd  *exec.Cmd
	exit chan struct{}
}

// Start starts a redis-server that is stopped when the test ends. args are further command-line
// settings ("--appendonly", "yes"). The test is skipped if redis-server is not installed, but fails
// if CI is set.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return startAs(tb, append([]string{"--save", ""}, args...)...)
}

// startAs starts a redis-server with the given arguments. The first may be a configuration file.
func startAs(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return startProgram(tb, executable(tb), args...)
}

func startProgram(tb testing.TB, path string, args ...string) *Server {
	tb.Helper()
	for tries := 1; ; tries++ {
		port := freePort(tb)
		s := &Server{Fixture: On(tb, fmt.Sprintf("127.0.0.1:%d", port)), Dir: tb.TempDir()}
		s.args = append(append([]string{path}, args...), "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--dir", s.Dir, "--daemonize", "no")
		err := s.run()
		if err != nil && strings.Contains(err.Error(), "Address already in use") && tries < 5 { // taken by another test in the meantime
			continue
		}
		Check(tb, err)
		tb.Cleanup(s.kill)
		return s
	}
}

// executable returns the path of redis-server.
func executable(tb testing.TB) string {
	tb.Helper()
	NotExternal(tb, ownRedis)
	path, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("CI") != "" {
			tb.Fatal("redis-server is not installed; make test installs it")
		}
		tb.Skip("redis-server is not installed; make test installs it")
	}
	return path
}

// StartOld starts a Redis 7.2 or older, whose data all engines can read: the first such redis-server in PATH, which may be
// the default one. The test is skipped if there is none.
func StartOld(tb testing.TB, args ...string) *Server {
	tb.Helper()
	NotExternal(tb, ownRedis)
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		path := filepath.Join(dir, "redis-server")
		version, err := exec.Command(path, "--version").Output()
		if err == nil && oldVersion.Match(version) {
			return startProgram(tb, path, append([]string{"--save", ""}, args...)...)
		}
	}
	tb.Skip("no redis-server of 7.2 or older is installed")
	return nil
}

var oldVersion = regexp.MustCompile(`^Redis server v=(6|7\.[0-2])\.`)

func (s *Server) start() {
	s.TB.Helper()
	Check(s.TB, s.run())
}

// run runs the server and waits until it accepts connections.
func (s *Server) run() error {
	s.TB.Helper()
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	out, err := s.cmd.StdoutPipe()
	Check(s.TB, err)
	s.cmd.Stderr = s.cmd.Stdout
	Check(s.TB, s.cmd.Start())
	s.exit = make(chan struct{})
	ready := make(chan struct{})
	var log strings.Builder
	go func() {
		defer close(s.exit)
		lines := bufio.NewScanner(out)
		for started := false; lines.Scan(); {
			if started {
				continue
			}
			log.WriteString(lines.Text() + "\n")
			if strings.Contains(lines.Text(), "Ready to accept connections") || strings.Contains(lines.Text(), "Sentinel ID is") {
				started = true
				close(ready)
			}
		}
		s.cmd.Wait()
	}()
	select {
	case <-ready:
	case <-s.exit:
		return fmt.Errorf("redis-server ended at once:\n%s", log.String())
	case <-time.After(startWait):
		s.kill()
		return fmt.Errorf("redis-server is not ready after %v", startWait)
	}
	return nil
}

// Kill ends the server like a power cut (SIGKILL) and waits for its end.
func (s *Server) Kill() {
	s.TB.Helper()
	s.checkAlone("kill")
	s.kill()
}

func (s *Server) kill() {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Kill()
	<-s.exit
	s.cmd = nil
	s.HangUp()
}

// Restart starts the server again after Kill, on the same port and folder.
func (s *Server) Restart() {
	s.TB.Helper()
	s.start()
	if s.Clustered {
		s.awaitCluster()
	}
}

// Hang stops the server's process: the kernel still accepts connections and data, but no command is
// answered before Continue.
func (s *Server) Hang() { s.TB.Helper(); s.signal("-STOP") }

// Continue ends a Hang.
func (s *Server) Continue() { s.TB.Helper(); s.signal("-CONT") }

func (s *Server) signal(signal string) {
	s.TB.Helper()
	s.checkAlone("hang")
	Check(s.TB, exec.Command("kill", signal, fmt.Sprint(s.cmd.Process.Pid)).Run())
}
