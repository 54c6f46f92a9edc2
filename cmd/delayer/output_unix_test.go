//go:build !windows

package main

import (
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redistest"
)

// A job whose body can't be written is ready again, as it was.
func TestFullDisk(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /dev/full")
	}
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	s, conn := newShell(t)
	expect := func(rest string, args ...string) {
		t.Helper()
		p := startInto(t, s.dir, s.env, full, nil, args...)
		want := "ERROR: output: write /dev/stdout: no space left on device" + rest + "\n"
		if code := p.wait(); code != exitOutput || p.stderr.String() != want {
			t.Errorf("%q: exit code %d, %s, want %s", args, code, p.stderr, want)
		}
	}
	expect(`; not printed: {"id_base64":"Mf8="}`, "push", "t\xfe", "0", "a body\xfd", "--id", "1\xff")
	before := redistest.Read(t, conn, "delayer:")
	for range 2 {
		expect(`; job "1\xff" is ready again`, "pop", "t\xfe")
		expect(`; job "1\xff" is ready again`, "bpop", "--json", "t\xfe")
		redistest.Expect(t, conn, "delayer:", before)
	}
	expect(`; not printed: {"id_base64":"Mf8=","removed":true}`, "remove", "1\xff")
	expect("", "--help")
	expect("", "version")
	redistest.Expect(t, conn, "delayer:", redistest.State{})
}

// startPop starts a pop of job 1 whose output is not read, and waits until it has
// the job. The output fails when it is closed.
func startPop(tb testing.TB, s shell, conn redis.Conn) (p *process, output *os.File) {
	tb.Helper()
	output, full := fullPipe(tb)
	do(tb, conn, "HSET", "delayer:job_bucket:1", "topic", "t", "body", "old")
	do(tb, conn, "LPUSH", "delayer:ready_queue:t", "1")
	p = startInto(tb, s.dir, s.env, full, nil, "pop", "t")
	eventually(tb, "the job is taken", func() bool { return do(tb, conn, "EXISTS", "delayer:job_bucket:1") == int64(0) })
	return p, output
}

func (p *process) expectError(code int, text string) {
	p.tb.Helper()
	if got := p.wait(); got != code || !strings.Contains(p.stderr.String(), text) {
		p.tb.Errorf("exit code %d, %s, want %d, %s", got, p.stderr, code, text)
	}
}

// A reader that goes away, or a signal while nobody reads, costs no job.
func TestUnreadJobGoesBack(t *testing.T) {
	for name, end := range map[string]func(p *process, output *os.File){
		"closed": func(p *process, output *os.File) {
			output.Close()
			p.expectError(exitOutput, `; job "1" is ready again`)
		},
		"signal": func(p *process, output *os.File) {
			p.signal(syscall.SIGTERM)
			p.wait()
		},
		"GNU timeout": func(p *process, output *os.File) {
			p.signal(syscall.SIGTERM)
			p.signal(syscall.SIGTERM)
			p.wait()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, conn := newShell(t)
			p, output := startPop(t, s, conn)
			end(p, output)
			redistest.Expect(t, conn, "delayer:", redistest.State{
				Ready:   map[string][]string{"t": {"1"}},
				Buckets: map[string]string{"1": "t old"},
			})
		})
	}
}

// A newer job of the same ID stands.
func TestUnreadJobPushedAnew(t *testing.T) {
	t.Parallel()
	s, conn := newShell(t)
	p, output := startPop(t, s, conn)
	s.expect(0, "1\n", "", "push", "t", "0", "new", "--id", "1")
	output.Close()
	p.expectError(exitOutput, `; job "1" has been pushed anew`)
	s.expect(0, "new\n", "", "pop", "t")
	redistest.Expect(t, conn, "delayer:", redistest.State{})
}

// A job that can't go back is on stderr.
func TestUnreadJobWithoutRedis(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	_, port, _ := strings.Cut(r.Addr, ":")
	p, output := startPop(t, shell{t, t.TempDir(), environment(t, "DELAYER_REDIS_PORT="+port)}, dial(t, r.Addr))
	r.Kill()
	output.Close()
	p.expectError(exitOutput, `it was: {"body":"old","id":"1","topic":"t"}`)
}

// A signal ends a command that waits for its input.
func TestInterruptedInput(t *testing.T) {
	t.Parallel()
	s, conn := newShell(t)
	p, _ := startReading(t, s.dir, s.env, "push", "t", "0", "-")
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != exitInterrupted {
		t.Errorf("exit code %d, %s", code, p.stderr)
	}
	redistest.Expect(t, conn, "delayer:", redistest.State{})
}
