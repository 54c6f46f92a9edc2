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

// A job's headers are in the JSON of each command that shows it, and in get's text, and survive an export and an import, a dead letter
// and a requeue.
func TestHeaders(t *testing.T) {
	s, db := newShellHere(t)
	const headers = `"headers":{"empty":"","t.x":"a=b \"ä\""},`
	push := func(id string, more ...string) {
		t.Helper()
		s.expect(0, id+"\n", "", append([]string{"push", "t", "0", "body", "--id", id, "--header", `t.x=a=b "ä"`, "--header=empty="}, more...)...)
	}
	push("a")
	s.expect(0, `{"jobs":[{"id":"a","topic":"t","state":"ready","attempts":0,`+headers+`"size":4,"preview":"body"}]}`+"\n", "", "list", "t", "--json")
	s.keeps("get a --json", 0, `"attempts":0,`+headers+`"body":"body"}`+"\n")
	s.keeps("get a", 0, "\nheaders:       empty=, t.x=a=b \"ä\"\nbody:          body\n")
	line := `{"id":"a","topic":"t",` + headers + `"body":"body"}` + "\n"
	s.expect(0, line, "", "export", "t")
	write(t, s.dir+"/jobs.json", line+`{"id":"b","topic":"t","body":"body"}`+"\n")
	s.expect(0, "removed a, which was ready\n", "", "remove", "a")
	s.expect(0, "pushed 2\n", "", "import", "jobs.json")
	s.expect(0, line+`{"id":"b","topic":"t","body":"body"}`+"\n", "", "export", "t")
	s.expect(0, `{"id":"a","topic":"t",`+headers+`"body":"body"}`+"\n", "", "pop", "t", "--json")
	s.expect(0, `{"id":"b","topic":"t","body":"body"}`+"\n", "", "pop", "t", "--json")
	push("a", "--max-attempts", "1")
	p := s.startWorker("--exec", "exit 65")
	p.expect(p.stderr, "it is a dead letter now")
	p.stopped()
	s.keeps("dead list t --json", 0, headers)
	s.expect(0, "requeued 1\n", "", "dead", "requeue", "t", "a")
	s.expect(0, `{"id":"a","topic":"t",`+headers+`"body":"body"}`+"\n", "", "pop", "t", "--json")

	write(t, s.dir+"/wrong.json", `{"topic":"t","body":"b","headers":{"a b":""}}`)
	s.expect(2, "", "ERROR: import: line 1: headers: the name \"a b\" is not 1 to 128 letters, digits, dots, underscores and hyphens\n", "import", "wrong.json")
	db.Expect(redistest.State{})
}

// The jobs of a schedule have its headers.
func TestHeadersOfSchedules(t *testing.T) {
	s, _ := newShellHere(t)
	s.keeps("schedule set s @daily t body --header a=1 --header b=2", 0, "")
	s.keeps("schedule list --json", 0, `"topic":"t","headers":{"a":"1","b":"2"},"body":"body"`)
	s.keeps("schedule run s", 0, "")
	s.keeps("pop t --json", 0, `,"topic":"t","headers":{"a":"1","b":"2"},"body":"body"}`+"\n")
}

// A program gets its job's headers and trace. Neither those of the worker's own environment nor those of the job before
// are left.
func TestHeadersInTheEnvironment(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	s.env = append(s.env, "TRACEPARENT=stale", "TRACESTATE=stale", "DELAYER_HEADER_STALE=1", "TRACEPARENTS=kept")
	p := s.startWorker("--concurrency", "1", "--exec", `env | grep -e ^DELAYER_HEADER -e ^TRACE | sort; cat; echo`)
	long := strings.Repeat("x", 4070)
	s.push("1", "with", "--header", "traceparent=00-1-2-01", "--header", "tracestate=a=b,c=d", "--header", "tenant-id=first", "--header", "tenant.id=second",
		"--header", "TENANT_ID=before both", "--header", "x=two\nlines", "--header", "0=ü")
	s.push("2", "without")
	s.push("3", "part", "--header", "Traceparent=another", "--header", "traceparent=")
	s.push("4", "long", "--header", "n="+long)
	p.expect(p.stdout, "long\n")
	p.stopped()
	// '-' < '.' and capitals come before small letters
	want := `DELAYER_HEADER_0=ü
DELAYER_HEADER_TENANT_ID=second
DELAYER_HEADER_TRACEPARENT=00-1-2-01
DELAYER_HEADER_TRACESTATE=a=b,c=d
DELAYER_HEADER_X=two
TRACEPARENT=00-1-2-01
TRACEPARENTS=kept
TRACESTATE=a=b,c=d
with
TRACEPARENTS=kept
without
DELAYER_HEADER_TRACEPARENT=
TRACEPARENT=
TRACEPARENTS=kept
part
DELAYER_HEADER_N=` + long + `
TRACEPARENTS=kept
long
`
	if got := p.stdout.String(); got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	db.Expect(redistest.State{})
}

// Headers that another program has written, and that no variable can hold, don't stop their job.
func TestForeignHeadersInTheEnvironment(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	s.push("1", "body")
	db.Do("HSET", "delayer:job_bucket:1", "options", `0 0 604800000 {"a\u0000=注":"b\u0000c","":"d"}`)
	p := s.startWorker("--exec", `env | grep ^DELAYER_HEADER | sort; cat; echo`)
	p.expect(p.stdout, "body\n")
	p.stopped()
	if got, want := p.stdout.String(), "DELAYER_HEADER_=d\nDELAYER_HEADER_A____BASE64=YgBj\nbody\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
