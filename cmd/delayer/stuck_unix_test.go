//go:build !windows

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

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
