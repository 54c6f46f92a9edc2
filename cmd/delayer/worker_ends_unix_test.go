//go:build !windows

package main

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// family is a program with a child. Both hold the FIFO open and ignore SIGTERM.
const family = `exec 3>fifo; trap "" TERM; sleep 1000 & wait; wait`

// startFamily starts a worker that runs family.
func (s shell) startFamily(args ...string) (*process, *os.File) {
	s.t.Helper()
	return s.startFIFO(append(args, "--exec", family)...)
}

// startFIFO starts a worker with a program that opens the FIFO, runs it for job 1, and returns the read
// end, which ends when all writers have ended.
func (s shell) startFIFO(args ...string) (*process, *os.File) {
	s.t.Helper()
	check(s.t, syscall.Mkfifo(s.dir+"/fifo", 0o600))
	p := s.startWorker(args...)
	s.push("1", "b")
	fifo, err := os.Open(s.dir + "/fifo") // blocks until the program opens it
	check(s.t, err)
	s.t.Cleanup(func() { fifo.Close() })
	return p, fifo
}

// gone waits for the end of a program and its child.
func gone(tb testing.TB, fifo *os.File) {
	tb.Helper()
	ended := make(chan []byte, 1)
	go func() {
		all, _ := io.ReadAll(fifo)
		ended <- all
	}()
	redistest.Receive(tb, ended)
}

// A program that exceeds its time is ended with its children, even if it exits on SIGTERM.
func TestWorkerTimeout(t *testing.T) {
	redistest.Long(t)
	for program, said := range map[string]string{
		family: "",
		`exec 3>fifo; (trap "" TERM; exec sleep 1000) & echo said >&2; wait`: ": said",
	} {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			s, db := newShell(t)
			p, fifo := s.startFIFO("--timeout", "5s", "--max-attempts", "1", "--exec", program)
			gone(t, fifo)
			want := shown{State: "dead", Attempts: 1, Reason: "the only attempt used up", Error: "stopped: the timeout of 5s has passed" + said}
			s.becomes(db, "1", want)
			p.stopped()
		})
	}
}

// A killed worker leaves no process behind, not even one that ignores SIGTERM or was started by a
// shell.
func TestWorkerKilled(t *testing.T) {
	t.Parallel()
	s, _ := newShell(t)
	p, fifo := s.startFIFO("--exec", "echo up; "+family)
	p.expect(p.stdout, "up\n") // by then the guard has heard of it
	p.cmd.Process.Kill()
	gone(t, fifo)
}

// A worker killed right after it has started a program leaves nothing behind, either. Ended programs
// are not signalled.
func TestWorkerKilledAtOnce(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("Linux alone kills a program of which the guard has not heard")
	}
	t.Parallel()
	s, _ := newShell(t)
	rounds := 20
	if testing.Short() {
		rounds = 5
	}
	for round := range rounds {
		fifo := fmt.Sprintf("%s/fifo%d", s.dir, round)
		check(t, syscall.Mkfifo(fifo, 0o600))
		open, err := os.OpenFile(fifo, os.O_RDWR, 0)
		check(t, err)
		p := s.startWorker("--concurrency", "1", "--lease", "1h", "--", "sh", "-c", `echo "$DELAYER_JOB_ID" >"$1"; exec sleep 1000 >"$1"`, "sh", fifo)
		s.push(fmt.Sprint(round), "b")
		_, err = open.Read(make([]byte, 1))
		check(t, err)
		p.cmd.Process.Kill()
		reader, err := os.Open(fifo)
		check(t, err)
		open.Close()
		gone(t, reader)
		reader.Close()
	}
}

// A program may finish while the worker stops.
func TestWorkerStops(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s, db := newShell(t)
			p := s.startWorker("--exec", `echo begun; while ! test -e go; do sleep 0.01; done; echo done`)
			s.push("1", "b")
			p.expect(p.stdout, "begun\n")
			p.signal(sig)
			p.expect(p.stderr, "the worker stops")
			s.push("2", "b")
			write(t, s.dir+"/go", "")
			if code := p.wait(); code != 0 || p.stdout.String() != "begun\ndone\n" {
				t.Errorf("exit code %d, %s, %s", code, p.stdout, p.stderr)
			}
			db.Expect(redistest.State{Ready: map[string][]string{"t": {"2"}}, Buckets: map[string]string{"2": "t b"}})
		})
	}
}

// A program that does not finish is ended after the grace period, and the job is ready again,
// unchanged.
func TestWorkerEndsPrograms(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	s, _ := newShell(t)
	p, fifo := s.startFamily()
	p.signal(syscall.SIGTERM)
	gone(t, fifo)
	if code := p.wait(); code != 0 || strings.Contains(p.stderr.String(), "does not return") {
		t.Errorf("exit code %d, %s", code, p.stderr)
	}
	if got := s.get("1"); got != (shown{State: "ready"}) {
		t.Errorf("the job is %+v", got)
	}
}

// A second signal ends the worker and its programs at once.
func TestWorkerSecondSignal(t *testing.T) {
	t.Parallel()
	s, _ := newShell(t)
	p, fifo := s.startFamily()
	p.signal(syscall.SIGTERM)
	p.expect(p.stderr, "the worker stops")
	p.signalUntilEnd(syscall.SIGTERM)
	gone(t, fifo)
	if code := p.wait(); code != exit.Interrupted || !strings.HasSuffix(p.stderr.String(), "ERROR: ended at once: the jobs under way are delivered again when their leases end\n") {
		t.Errorf("exit code %d, %s", code, p.stderr)
	}
	if got := s.get("1"); got.State == "" || got.State == "ready" {
		t.Errorf("the job is %+v", got)
	}
}

// A child that keeps a program's output open does not delay the job.
func TestWorkerLeftChild(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	p := s.startWorker("--exec", `echo begun; sh -c 'while ! test -e go; do sleep 0.1; done; echo >gone' & exit 0`)
	s.push("1", "b")
	p.expect(p.stdout, "begun\n")
	eventually(t, "the job is done", func() bool { return db.Do("EXISTS", "delayer:job_bucket:1") == int64(0) })
	p.stopped()
	write(t, s.dir+"/go", "")
	eventually(t, "the child has ended", func() bool { return exists(s.dir + "/gone") })
}
