//go:build !windows

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
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

// The second signal ends a slow stop at once. TestStop shows that a signal right after the first is a duplicate. If the script that was
// under way had been answered, and only its reply not read, nothing hangs yet, and the stop is not slow: then the test tries again.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	for tries := 1; ; tries++ {
		s, p := stoppingWhileRedisHangs(t)
		p.signalUntilEnd(syscall.SIGINT)
		code := p.wait()
		if code == 0 && tries < 5 {
			continue
		}
		if code != exit.Failed || exists(s.pid) || strings.Contains(read(t, s.access), stopped) || !strings.Contains(read(t, s.errors), "by a second signal") {
			t.Errorf("exit code %d, pid file %v\n%s%s", code, exists(s.pid), p.stdout, p.stderr)
		}
		return
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

// fullPipe returns a full pipe that nobody reads.
func fullPipe(tb testing.TB) (reader, writer *os.File) {
	tb.Helper()
	reader, writer, err := os.Pipe()
	check(tb, err)
	tb.Cleanup(func() {
		reader.Close()
		writer.Close()
	})
	raw, err := writer.SyscallConn()
	check(tb, err)
	raw.Control(func(fd uintptr) {
		for err == nil {
			_, err = syscall.Write(int(fd), make([]byte, 1<<16))
		}
		syscall.SetNonblock(int(fd), false) // makes writes of the program block
	})
	if !errors.Is(err, syscall.EAGAIN) {
		tb.Fatal(err)
	}
	return reader, writer
}

// startInto starts the program with the given files as its output, unless they are nil.
func startInto(tb testing.TB, dir string, env []string, stdout, stderr *os.File, args ...string) *process {
	tb.Helper()
	cmd := exec.Command(binary, args...)
	if stdout != nil {
		cmd.Stdout = stdout
	}
	if stderr != nil {
		cmd.Stderr = stderr
	}
	return startCommand(tb, dir, env, cmd)
}

// deliver pushes a job and waits until the daemon has moved it.
func deliver(tb testing.TB, redisServer *redistest.Server, id string) {
	tb.Helper()
	redisServer.Do("HSET", "delayer:job_bucket:"+id, "topic", "t", "body", "b")
	redisServer.Do("ZADD", "delayer:job_pool", 1, id)
	eventually(tb, "the job is ready", func() bool { return redisServer.Do("ZCARD", "delayer:job_pool") == int64(0) })
}

// A console that nobody reads delays neither the delivery nor the stop, and lost lines are
// reported.
func TestStuckConsole(t *testing.T) {
	redisServer := redistest.Start(t)
	for _, mode := range modes {
		t.Run("mode"+strings.Join(mode, ""), func(t *testing.T) {
			s := newSite(t, redisServer.Addr)
			_, full := fullPipe(t)
			p := startInto(t, s.dir, environment(t), full, full, append(mode, "-c", s.conf)...)
			eventually(t, "the daemon has started", func() bool { return exists(s.access) && strings.Contains(read(t, s.access), started) })
			pid, err := strconv.Atoi(read(t, s.pid))
			check(t, err)
			deliver(t, redisServer, "1")
			eventually(t, "that is in the log, which is then put aside", func() bool { return strings.Contains(read(t, s.access), "IDs: [1]") })
			rotate(t, s, pid)
			deliver(t, redisServer, "2")
			stopDaemon(t, s, syscall.SIGTERM)
			p.ends(0)
			matches(t, "old access log", read(t, s.access+".1"), infoLine(started+strconv.Itoa(pid))+infoLine("Job is ready, Topic: t, IDs: [1]"))
			matches(t, "access log", read(t, s.access), infoLine("Job is ready, Topic: t, IDs: [2]")+infoLine(stopped+strconv.Itoa(pid)))
			want := `\[error\] \S+ \S+ the console: it is not read, lines lost: 12\n`
			if len(mode) > 0 { // has no console
				want = ""
			}
			matches(t, "error log", read(t, s.errors), want)
		})
	}
}

// An unread error message does not keep a program from exiting.
func TestStuckErrors(t *testing.T) {
	withPassword := redistest.Start(t, "--requirepass", "right")
	s := newSite(t, withPassword.Addr)
	for _, test := range []struct {
		args []string
		code int
	}{
		{[]string{"-c", s.conf}, exit.Redis},
		{[]string{"-d", "-c", s.conf}, exit.Redis},
		{[]string{"-c", s.conf, "pop", "t"}, exit.Redis},
		{[]string{"-c", s.dir}, exit.Usage},
		{[]string{"start"}, exit.Usage},
	} {
		_, full := fullPipe(t)
		if code := startInto(t, s.dir, environment(t), full, full, test.args...).wait(); code != test.code {
			t.Errorf("%v: exit code %d", test.args, code)
		}
	}
}

// Logs may be pipes that nobody reads.
func TestLogsArePipes(t *testing.T) {
	redisServer := redistest.Start(t)
	for _, mode := range modes {
		t.Run("mode"+strings.Join(mode, ""), func(t *testing.T) {
			s := newSite(t, redisServer.Addr)
			write(t, s.access, "")
			for _, log := range []string{s.access, s.errors} {
				os.Remove(log)
				check(t, syscall.Mkfifo(log, 0o600))
			}
			p := s.started(t, mode...)
			pid, _ := strconv.Atoi(read(t, s.pid))
			deliver(t, redisServer, "1")
			syscall.Kill(pid, syscall.SIGUSR1)
			deliver(t, redisServer, "2")
			reader, err := os.Open(s.access)
			check(t, err)
			defer reader.Close()
			stopDaemon(t, s, syscall.SIGTERM)
			text, _ := io.ReadAll(reader)
			matches(t, "access log", string(text), infoLine(started+strconv.Itoa(pid))+infoLine("Job is ready, Topic: t, IDs: [1]")+
				infoLine("Job is ready, Topic: t, IDs: [2]")+infoLine(stopped+strconv.Itoa(pid)))
			p.ends(0)
		})
	}
}

// Each exit code of the table can occur, and the help explains it.
func TestExitCodes(t *testing.T) {
	withPassword := redistest.Start(t, "--requirepass", "right")
	_, listed, _ := strings.Cut(read(t, "../../docs/commands.md"), "\n## Exit codes\n") // which a test compares with the help
	exitCodes := regexp.MustCompile(`(?m)^- (\d+): (.*)$`).FindAllStringSubmatch(listed, -1)
	help := runBinary(t, t.TempDir(), environment(t), "help").stdout
	run := func(s site, args ...string) int {
		return runBinary(t, s.dir, environment(t), append([]string{"-c", s.conf}, args...)...).code
	}
	ways := map[int]func(s site) int{
		exit.Done:    func(s site) int { return run(s, "push", "t", "0", "b") },
		exit.Nothing: func(s site) int { return run(s, "pop", "empty") },
		exit.Usage: func(s site) int {
			s.change(t, "port = ", "port = x")
			return run(s)
		},
		exit.Redis: func(s site) int {
			s.change(t, "right", "wrong")
			return run(s)
		},
		exit.Running: func(s site) int {
			s.started(t)
			return run(s)
		},
		exit.Output: func(s site) int {
			reader, writer, err := os.Pipe()
			check(t, err)
			defer writer.Close()
			reader.Close()
			return startInto(t, s.dir, environment(t), writer, nil, "-c", s.conf, "push", "t", "0", "b").wait()
		},
		exit.Failed: func(s site) int { return killChild(t) },
		exit.Interrupted: func(s site) int {
			p, _ := startReading(t, s.dir, environment(t), "-c", s.conf, "push", "t", "0", "-")
			p.signal(syscall.SIGINT)
			return p.wait()
		},
	}
	for _, e := range exitCodes {
		want, err := strconv.Atoi(e[1])
		check(t, err)
		way, ok := ways[want]
		if !ok {
			t.Errorf("no way to %d", want)
			continue
		}
		if code := way(newSite(t, withPassword.Addr, "password = right")); code != want {
			t.Errorf("%d instead of %s: %s", code, e[1], e[2])
		}
		if !strings.Contains(strings.ReplaceAll(help, "\n", " "), " "+e[1]+" ") {
			t.Errorf("the help does not tell of %s: %s", e[1], help)
		}
	}
	if len(ways) != len(exitCodes) {
		t.Errorf("%d codes in the table, want %d", len(exitCodes), len(ways))
	}
}

// killChild kills a daemon in the background before it is ready.
func killChild(tb testing.TB) (code int) {
	tb.Helper()
	mute := newMute(tb)
	s := newSite(tb, mute.addr)
	p := s.start(tb, "-d")
	mute.waitForConnection()
	pid, err := strconv.Atoi(read(tb, s.pid))
	check(tb, err)
	syscall.Kill(pid, syscall.SIGKILL)
	code = p.wait()
	if p.stderr.String() != "ERROR: the service ended before it was ready: signal: killed\n" {
		tb.Errorf("stderr %q", p.stderr)
	}
	return code
}

// startReading starts a program and waits until it reads its input. The test can write more to the
// returned file.
func startReading(tb testing.TB, dir string, env []string, args ...string) (p *process, input *os.File) {
	tb.Helper()
	stdin, input, err := os.Pipe()
	check(tb, err)
	tb.Cleanup(func() { input.Close() })
	defer stdin.Close()
	cmd := exec.Command(binary, args...)
	cmd.Stdin = stdin
	p = startCommand(tb, dir, env, cmd)
	if _, err := input.Write(make([]byte, 1<<20)); err != nil { // more than a pipe holds
		tb.Fatal(err)
	}
	return p, input
}

// A crash does not exit with 2, the code for a wrong configuration. TestStalePIDFile shows that another start works.
func TestCrash(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	p := newSite(t, redistest.Nobody(t)).started(t)
	p.signal(syscall.SIGABRT)
	p.wait()
	if state := p.cmd.ProcessState; state.Sys().(syscall.WaitStatus).Signal() != syscall.SIGABRT {
		t.Errorf("ended with %v", state)
	}
}
