//go:build !windows

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/redistest"
)

// startWorker starts a worker of topic t and waits until it has started.
func (s shell) startWorker(args ...string) *process {
	s.t.Helper()
	p := startBinary(s.t, s.dir, s.env, append([]string{"worker", "--topic", "t"}, args...)...)
	p.expect(p.stderr, "the worker has started")
	return p
}

// stopped stops a worker and waits for its end.
func (p *process) stopped() {
	p.tb.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		p.tb.Errorf("exit code %d: %s", code, p.stderr)
	}
}

// shown is what get tells of a job, less what no test knows.
type shown struct {
	State         string
	Attempts      int
	MaxAttempts   int `json:"max_attempts"`
	Error, Reason string
}

func (s shell) get(id string) shown {
	s.t.Helper()
	r := runBinary(s.t, s.dir, s.env, "get", "--json", id)
	var job shown
	if r.code == 0 && json.Unmarshal([]byte(r.stdout), &job) != nil {
		s.t.Fatalf("get %s: %+v", id, r)
	}
	return job
}

func (s shell) push(id, body string, args ...string) {
	s.t.Helper()
	s.expect(0, id+"\n", "", append([]string{"push", "--id", id, "t", "0", body}, args...)...)
}

// The exit code of the program says what becomes of the job, and its last words are kept.
func TestWorkerExitCodes(t *testing.T) {
	t.Parallel()
	s, _ := newShell(t)
	const script = `set -- $(cat); echo "$DELAYER_JOB_ID is read"; test $1 = 0 || { echo why; echo "since $1"; } >&2; test $1 = signal && kill -9 $$; exit $1`
	p := s.startWorker("--exec", script, "--max-attempts", "5")
	const said = ": since %[1]s\nwhy\nsince %[1]s"
	jobs := map[string]shown{
		"0":      {},
		"1":      {State: "waiting", Attempts: 1, Error: fmt.Sprintf("exit status 1"+said, "1")},
		"64":     {State: "waiting", Attempts: 1, Error: fmt.Sprintf("exit status 64"+said, "64")},
		"75":     {State: "waiting", Attempts: 1, Error: fmt.Sprintf("exit status 75"+said, "75")},
		"65":     {State: "dead", Attempts: 1, Reason: fmt.Sprintf("exit status 65"+said, "65")},
		"signal": {State: "waiting", Attempts: 1, Error: fmt.Sprintf("signal: killed"+said, "signal")},
		"last":   {State: "dead", Attempts: 1, MaxAttempts: 1, Reason: "all 1 attempts used up", Error: fmt.Sprintf("exit status 1"+said, "1")},
	}
	for id := range jobs {
		if id == "last" {
			s.push(id, "1", "--max-attempts", "1")
		} else {
			s.push(id, id)
		}
	}
	for id, want := range jobs {
		p.expect(p.stdout, id+" is read\n")
		var got shown
		eventually(t, fmt.Sprintf("job %s is %+v", id, want), func() bool {
			got = s.get(id)
			return got.State == want.State
		})
		if got != want {
			t.Errorf("%s: got %+v, want %+v", id, got, want)
		}
	}
	p.stopped()
	for _, line := range []string{"\nwhy\n", "\nsince 75\n", `level=WARN msg="job failed, it will be tried again" topic=t id=75 attempt=1 error="exit status 75: since 75" in=`, `msg="the worker has stopped"`} {
		if !strings.Contains(p.stderr.String(), line) {
			t.Errorf("no %q in:\n%s", line, p.stderr)
		}
	}
}

// What a program is told of its job, whatever bytes that has.
func TestWorkerEnvironment(t *testing.T) {
	t.Parallel()
	s, conn := newShell(t)
	s.env = append(s.env, "DELAYER_JOB_STALE=1", "OTHER=kept")
	p := startBinary(t, s.dir, s.env, "worker", "--topic", "t,u\xff", "--concurrency", "1", "--max-attempts", "7", "--",
		"sh", "-c", `env | grep -e ^DELAYER_JOB -e ^OTHER | sed 's/TOKEN=[0-9]*$/TOKEN=n/' | sort; cat; echo; echo "$0"`, "an 'argument'")
	p.expect(p.stderr, "the worker has started")
	do(t, conn, "HSET", "delayer:job_bucket:1\x00", "topic", "u\xff", "body", "a\x00b")
	do(t, conn, "LPUSH", "delayer:ready_queue:u\xff", "1\x00")
	p.expect(p.stdout, "an 'argument'\n")
	s.push("-", "body", "--max-attempts", "3")
	p.expect(p.stdout, "body\nan 'argument'\n")
	p.stopped()
	want := `DELAYER_JOB_ATTEMPT=1
DELAYER_JOB_BODY_LENGTH=3
DELAYER_JOB_ID_BASE64=MQA=
DELAYER_JOB_MAX_ATTEMPTS=7
DELAYER_JOB_TOKEN=n
DELAYER_JOB_TOPIC_BASE64=df8=
OTHER=kept
` + "a\x00b" + `
an 'argument'
DELAYER_JOB_ATTEMPT=1
DELAYER_JOB_BODY_LENGTH=4
DELAYER_JOB_ID=-
DELAYER_JOB_MAX_ATTEMPTS=3
DELAYER_JOB_TOKEN=n
DELAYER_JOB_TOPIC=t
OTHER=kept
body
an 'argument'
`
	if got := p.stdout.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	redistest.Expect(t, conn, "delayer:", redistest.State{})
}

// A program that is not there is found out before a job is reserved.
func TestWorkerWithoutProgram(t *testing.T) {
	t.Parallel()
	s, conn := newShell(t)
	s.push("1", "b")
	before := redistest.Read(t, conn, "delayer:")
	write(t, s.dir+"/text", "no program")
	s.expect(2, "", "ERROR: exec: \"no-such-program\": executable file not found in $PATH\n", "worker", "--topic", "t", "no-such-program")
	s.expect(2, "", "ERROR: exec: \"./text\": permission denied\n", "worker", "--topic", "t", "./text")
	if r := runBinary(t, s.dir, s.env, "worker", "--topic", "t", ""); r.code != 2 || !strings.HasPrefix(r.stderr, "ERROR: worker: the program's name is empty\n") {
		t.Errorf("%+v", r)
	}
	redistest.Expect(t, conn, "delayer:", before)
}

// A program that goes while the worker runs costs no job an attempt.
func TestWorkerLosesProgram(t *testing.T) {
	t.Parallel()
	s, _ := newShell(t)
	program := filepath.Join(s.dir, "program")
	write(t, program, "#!/bin/sh\n")
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	p := s.startWorker("--", program)
	os.Remove(program)
	s.push("1", "b")
	p.expect(p.stderr, `level=ERROR msg="the program can't be started, the job will be delivered again" error="fork/exec `+program+`: no such file or directory" topic=t id=1`)
	eventually(t, "the job waits", func() bool { return s.get("1") == shown{State: "waiting"} })
	p.stopped()
}

// family is a program that holds the FIFO open, and so does its child; all of them are deaf to
// SIGTERM.
const family = `exec 3>fifo; trap "" TERM; sleep 1000 & wait; wait`

// startFamily starts a worker with that, has it run for job 1, and returns what is at its end
// when all of the family have gone.
func (s shell) startFamily(args ...string) (*process, *os.File) {
	s.t.Helper()
	if err := syscall.Mkfifo(s.dir+"/fifo", 0o600); err != nil {
		s.t.Fatal(err)
	}
	p := s.startWorker(append(args, "--exec", family)...)
	s.push("1", "b")
	fifo, err := os.Open(s.dir + "/fifo") // waits for the program
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { fifo.Close() })
	return p, fifo
}

func gone(tb testing.TB, fifo *os.File) {
	tb.Helper()
	ended := make(chan struct{})
	go func() {
		io.ReadAll(fifo)
		close(ended)
	}()
	select {
	case <-ended:
	case <-after(patience):
		tb.Error("the program, or its child, still runs")
	}
}

// A program that takes too long is ended with its children.
func TestWorkerTimeout(t *testing.T) {
	t.Parallel()
	s, _ := newShell(t)
	p, fifo := s.startFamily("--timeout", "200ms", "--max-attempts", "1")
	gone(t, fifo)
	want := shown{State: "dead", Attempts: 1, Reason: "all 1 attempts used up", Error: "stopped: the handler's timeout has passed: context deadline exceeded"}
	eventually(t, "the job is dead", func() bool { return s.get("1").State == "dead" })
	if got := s.get("1"); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	p.stopped()
}

// So is one whose job is another's now.
func TestWorkerLosesLease(t *testing.T) {
	t.Parallel()
	s, _ := newShell(t)
	p, fifo := s.startFamily("--lease", "600ms")
	s.expect(0, "removed 1\n", "", "remove", "1")
	gone(t, fifo)
	p.expect(p.stderr, "lease lost")
	p.stopped()
}

// A program gets to its end when the worker is to stop.
func TestWorkerStops(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s, conn := newShell(t)
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
			redistest.Expect(t, conn, "delayer:", redistest.State{Ready: map[string][]string{"t": {"2"}}, Buckets: map[string]string{"2": "t b"}})
		})
	}
}

// One that does not is ended after the grace, and the job is ready again as if nothing had been.
func TestWorkerEndsPrograms(t *testing.T) {
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

// A second signal ends it, and the programs, at once.
func TestWorkerSecondSignal(t *testing.T) {
	t.Parallel()
	s, _ := newShell(t)
	p, fifo := s.startFamily()
	p.signal(syscall.SIGTERM)
	p.expect(p.stderr, "the worker stops")
	for ended := false; !ended; { // one that comes too soon counts as the first
		select {
		case <-p.exited:
			ended = true
		case <-after(sameSignal / 4):
			p.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	gone(t, fifo)
	if code := p.wait(); code != exitInterrupted || !strings.HasSuffix(p.stderr.String(), "ERROR: "+errEndedAtOnce.Error()+"\n") {
		t.Errorf("exit code %d, %s", code, p.stderr)
	}
	if got := s.get("1"); got.State == "" || got.State == "ready" {
		t.Errorf("the job is %+v", got)
	}
}

// What the producer says counts, and get shows it, while the job is reserved.
func TestWorkerTerms(t *testing.T) {
	t.Parallel()
	s, conn := newShell(t)
	p := s.startWorker("--exec", `echo begun; while ! test -e go; do sleep 0.01; done`)
	s.push("1", "b", "--ttr", "1d", "--max-attempts", "3")
	p.expect(p.stdout, "begun\n")
	r := runBinary(t, s.dir, s.env, "get", "--json", "1")
	var job struct {
		shown
		Ends time.Time `json:"lease_ends"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &job); err != nil || job.shown != (shown{State: "reserved", Attempts: 1, MaxAttempts: 3}) {
		t.Errorf("%+v, %v", r, err)
	}
	if left := time.Until(job.Ends); left < 23*time.Hour || left > 25*time.Hour {
		t.Errorf("the lease ends in %v", left)
	}
	matches(t, "get", runBinary(t, s.dir, s.env, "get", "1").stdout, `id:    1
topic: t
state: reserved, lease ends \S+ \S+
kept:  for another \S+
attempts: 1 of 3
body:  b
`)
	write(t, s.dir+"/go", "")
	eventually(t, "the job is done", func() bool { return len(redisKeys(t, conn)) == 0 })
	p.stopped()
}

// A child that keeps a program's output open does not hold up the job.
func TestWorkerLeftChild(t *testing.T) {
	t.Parallel()
	s, conn := newShell(t)
	p := s.startWorker("--exec", `echo begun; sh -c 'while ! test -e go; do sleep 0.1; done' & exit 0`)
	s.push("1", "b")
	p.expect(p.stdout, "begun\n")
	eventually(t, "the job is done", func() bool { return do(t, conn, "EXISTS", "delayer:job_bucket:1") == int64(0) })
	p.stopped()
	write(t, s.dir+"/go", "")
}

// Programs and the worker get on although nobody reads what they write.
func TestWorkerIsNotRead(t *testing.T) {
	t.Parallel()
	s, conn := newShell(t)
	_, full := fullPipe(t)
	p := startInto(t, s.dir, s.env, full, full, "worker", "--topic", "t", "--exec", `cat; cat >&2; yes | head -c 100000; yes | head -c 100000 >&2`)
	for i := range 20 {
		s.push(fmt.Sprint(i), strings.Repeat("b", 10000))
	}
	eventually(t, "the jobs are done", func() bool { return len(redisKeys(t, conn)) == 0 })
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func redisKeys(tb testing.TB, conn redis.Conn) []string {
	keys, err := redis.Strings(conn.Do("KEYS", "delayer:job_bucket:*"))
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

// Programs are not started to ignore a broken pipe, as we do.
func TestWorkerBrokenPipe(t *testing.T) {
	t.Parallel()
	s, conn := newShell(t)
	p := s.startWorker("--exec", `yes 2>errors | head -n 1; test -s errors && exit 65; exit 0`)
	s.push("1", "b")
	p.expect(p.stdout, "y\n")
	eventually(t, "the job is done", func() bool { return len(redisKeys(t, conn)) == 0 })
	p.stopped()
	redistest.Expect(t, conn, "delayer:", redistest.State{})
}

// A password that Redis refuses ends a worker; that Redis is away does not.
func TestWorkerAndRedis(t *testing.T) {
	t.Parallel()
	withPassword := redistest.Start(t, "--requirepass", "right")
	_, port, _ := strings.Cut(withPassword.Addr, ":")
	r := runBinary(t, t.TempDir(), environment(t, "DELAYER_REDIS_PORT="+port), "worker", "--topic", "t", "true")
	if r.code != exitRedis || r.stdout != "" || !strings.Contains(r.stderr, "\nERROR: ") {
		t.Errorf("%+v", r)
	}
	s := shell{t, t.TempDir(), environment(t, "DELAYER_REDIS_PORT=1")}
	p := s.startWorker("--json", "true")
	p.expect(p.stderr, `"level":"ERROR","msg":"worker can't fetch jobs, it keeps trying"`)
	p.stopped()
}
