//go:build !windows

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// startWorker starts a worker of topic t and waits until it is ready.
func (s shell) startWorker(args ...string) *process {
	s.t.Helper()
	p := startBinary(s.t, s.dir, s.env, append([]string{"worker", "--topic", "t"}, args...)...)
	p.expect(p.stderr, "the worker has started")
	return p
}

// stopped stops the program and waits for its end.
func (p *process) stopped() {
	p.tb.Helper()
	p.signal(syscall.SIGTERM)
	p.ends(0)
}

func (s shell) push(id, body string, args ...string) {
	s.t.Helper()
	s.expect(0, id+"\n", "", append([]string{"push", "--id", id, "t", "0", body}, args...)...)
}

// The program's exit code decides the result of the job, and the end of its standard error is kept; with several
// partitions.
func TestWorkerExitCodes(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	db.Partitions = 5
	s.env = append(s.env, "DELAYER_REDIS_PARTITIONS=5")
	const script = `set -- $(cat); echo "$DELAYER_JOB_ID is read"; test $1 = 0 || { echo why; echo "since $1"; } >&2; test $1 = signal && kill -9 $$; exit $1`
	p := s.startWorker("--exec", script, "--max-attempts", "5")
	const said = ": why\nsince %[1]s"
	jobs := map[string]shown{
		"0":      {},
		"1":      {State: "waiting", Attempts: 1, Error: fmt.Sprintf("exit status 1"+said, "1")},
		"75":     {State: "waiting", Attempts: 1, Error: fmt.Sprintf("exit status 75"+said, "75")},
		"65":     {State: "dead", Attempts: 1, Reason: fmt.Sprintf("exit status 65"+said, "65"), Error: fmt.Sprintf("exit status 65"+said, "65")},
		"signal": {State: "waiting", Attempts: 1, Error: fmt.Sprintf("signal: killed"+said, "signal")},
		"last":   {State: "dead", Attempts: 1, MaxAttempts: 1, Reason: "the only attempt used up", Error: fmt.Sprintf("exit status 1"+said, "1")},
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
		s.becomes(db, id, want)
	}
	p.stopped()
	for _, line := range []string{"\nwhy\n", "\nsince 75\n", `level=WARN msg="job failed, it will be tried again" topic=t job=75 attempt=1 error="exit status 75: why … since 75" in=`, `msg="the worker has stopped"`} {
		if !strings.Contains(p.stderr.String(), line) {
			t.Errorf("no %q in:\n%s", line, p.stderr)
		}
	}
}

// A program gets the data of its job, whatever bytes it contains.
func TestWorkerEnvironment(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	s.env = append(s.env, "DELAYER_JOB_STALE=1", "OTHER=kept")
	p := startBinary(t, s.dir, s.env, "worker", "--topic", "t,u\xff", "--concurrency", "1", "--max-attempts", "7", "--",
		"sh", "-c", `env | grep -e ^DELAYER_JOB -e ^OTHER | sed 's/TOKEN=[0-9]*$/TOKEN=n/' | sort; cat; echo; echo "$0"`, "an 'argument'")
	p.expect(p.stderr, "the worker has started")
	db.Do("HSET", "delayer:job_bucket:1\x00", "topic", "u\xff", "body", "a\x00b")
	db.Do("LPUSH", "delayer:ready_queue:u\xff", "1\x00")
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
	db.Expect(redistest.State{})
}

// A missing or unusable program is detected before a job is reserved.
func TestWorkerWithoutProgram(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	s.push("1", "b")
	before := db.State()
	write(t, s.dir+"/text", "no program")
	for name, line := range map[string]string{
		"lost": "#!/no/such/interpreter -x", "env": "#!/usr/bin/env -S A=1 no-such-interpreter x", "dos": "#!/bin/sh\r", "good": "#! /usr/bin/env sh",
	} {
		s.script(name, line+"\ntrue\n")
	}
	const wanted = `executable file not found in $PATH`
	refused := func(want string, args ...string) {
		t.Helper()
		s.expect(exit.Usage, "", "ERROR: "+want+"\n", append([]string{"worker", "--topic", "t"}, args...)...)
	}
	refused(`exec: "no-such-program": `+wanted, "no-such-program")
	refused(`exec: "./text": permission denied`, "./text")
	refused(`./lost: its interpreter: exec: "/no/such/interpreter": stat /no/such/interpreter: no such file or directory`, "./lost", "x")
	refused(`./env: its interpreter: exec: "no-such-interpreter": `+wanted, "./env")
	refused(`./dos: its interpreter: exec: "/bin/sh\r": stat /bin/sh`+"\r"+`: no such file or directory`, "./dos")
	refused(`the shell knows no command "no-such-program"`, "--exec", "no-such-program x")
	refused(`exec: "./text": permission denied`, "--exec", " A=1 B=  ./text | cat")
	refused(`exec: "./gone": stat ./gone: no such file or directory`, "--exec", "./gone>x")
	db.Expect(before)
}

// script writes an executable script.
func (s shell) script(name, text string) (path string) {
	s.t.Helper()
	path = filepath.Join(s.dir, name)
	write(s.t, path, text)
	check(s.t, os.Chmod(path, 0o755))
	return path
}

// A program that disappears while the worker runs costs no job an attempt.
func TestWorkerLosesProgram(t *testing.T) {
	for _, test := range []struct {
		name string
		args func(program string) []string
		lose func(program string) error
		want string
	}{
		{"removed", func(program string) []string { return []string{"--", program} }, os.Remove,
			`fork/exec PROGRAM: no such file or directory`},
		{"removed under a shell", func(program string) []string { return []string{"--exec", program + "; exit $?"} }, os.Remove,
			`exit status 127: sh: 1: PROGRAM: not found`},
		{"not executable under a shell", func(program string) []string { return []string{"--exec", program + "; exit $?"} },
			func(program string) error { return os.Chmod(program, 0o644) },
			`exit status 126: sh: 1: PROGRAM: Permission denied`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, db := newShell(t)
			const text = "#!/bin/sh\necho here\n"
			program := s.script("program", text)
			p := s.startWorker(append([]string{"--max-attempts", "1"}, test.args(program)...)...)
			check(t, test.lose(program))
			s.push("1", "b")
			p.expect(p.stderr, `level=ERROR msg="the program can't be started, the job will be delivered again" error="`)
			if want := strings.ReplaceAll(test.want, "PROGRAM", program); !strings.Contains(p.stderr.String(), want) {
				if out, _ := exec.Command("sh", "-c", "./gone").CombinedOutput(); strings.HasPrefix(string(out), "sh: 1: ") { // the wording is dash's
					t.Errorf("no %q in %s", want, p.stderr)
				}
			}
			s.becomes(db, "1", shown{State: "waiting"})
			s.script("program", text)
			db.Do("ZREM", "delayer:job_pool", "1") // no server moves it here
			db.Do("LPUSH", "delayer:ready_queue:t", "1")
			p.expect(p.stdout, "here\n")
			p.stopped()
		})
	}
}

// At its start, a worker logs which of its topics are paused or throttled.
func TestWorkerOfAPausedTopic(t *testing.T) {
	t.Parallel()
	s, _ := newShell(t)
	s.expect(0, "paused t\n", "", "pause", "t", "--note", "moving")
	p := s.startWorker("--exec", "true")
	p.expect(p.stderr, `msg="jobs are not delivered now" topic=t why="the topic is paused since `)
	p.stopped()
}

// A worker needs no shell, as in a container with nothing but programs.
func TestWorkerWithoutShell(t *testing.T) {
	t.Parallel()
	cat, err := exec.LookPath("cat")
	check(t, err)
	s, _ := newShell(t)
	for i, variable := range s.env {
		if strings.HasPrefix(variable, "PATH=") {
			s.env[i] = "PATH=" + s.dir
		}
	}
	p := s.startWorker("--", cat)
	s.push("1", "body\n")
	p.expect(p.stdout, "body\n")
	p.stopped()
}

// Programs and the worker continue although nobody reads their output.
func TestWorkerIsNotRead(t *testing.T) {
	redistest.Long(t)
	t.Parallel()
	s, db := newShell(t)
	_, full := fullPipe(t)
	p := startInto(t, s.dir, s.env, full, full, "worker", "--topic", "t", "--exec", `cat; cat >&2; yes | head -c 100000; yes | head -c 100000 >&2`)
	for i := range 20 {
		s.push(fmt.Sprint(i), strings.Repeat("b", 10000))
	}
	eventually(t, "the jobs are done", func() bool { return len(db.State().Buckets) == 0 })
	p.stopped()
}

// Programs do not inherit the worker's handling of SIGPIPE.
func TestWorkerBrokenPipe(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	p := s.startWorker("--exec", `yes 2>errors | head -n 1; test -s errors && exit 65; exit 0`)
	s.push("1", "b")
	p.expect(p.stdout, "y\n")
	eventually(t, "the job is done", func() bool { return len(db.State().Buckets) == 0 })
	p.stopped()
	db.Expect(redistest.State{})
}

// A refused password ends a worker; an outage of Redis does not.
func TestWorkerAndRedis(t *testing.T) {
	t.Parallel()
	s, _ := newShell(t, "--requirepass", "right")
	r := s.run("worker", "--topic", "t", "true")
	if r.code != exit.Redis || r.stdout != "" || !strings.Contains(r.stderr, "\nERROR: ") {
		t.Errorf("%+v", r)
	}
	s.env = environment(t, "DELAYER_REDIS_PORT=1")
	p := s.startWorker("--json", "true")
	p.expect(p.stderr, `"level":"ERROR","msg":"worker can't fetch jobs, it keeps trying"`)
	p.stopped()
}

// A program gets its whole body or is not started: the worker may be killed at any time.
func TestWorkerBodyIsWhole(t *testing.T) {
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("needs setsid")
	}
	t.Parallel()
	s, _ := newShell(t)
	const body = 1 << 20
	// A process that the program leaves behind reads the body after the worker has ended.
	p := s.startWorker("--exec", `exec 3<&0
setsid sh -c 'echo "$DELAYER_JOB_BODY_LENGTH bytes" >&4; while ! test -e go; do sleep 0.01; done; wc -c >counted; mv counted got' <&3 3<&- 4>&1 >left 2>&1 &
exec sleep 1000`)
	startReader(t, s, strings.Repeat("b", body))
	p.expect(p.stdout, "1048576 bytes\n")
	p.cmd.Process.Kill()
	p.wait()
	write(t, s.dir+"/go", "")
	eventually(t, "the body is read", func() bool { return exists(s.dir + "/got") })
	if got := strings.TrimSpace(read(t, s.dir+"/got")); got != "1048576" {
		t.Errorf("the program has read %s bytes, want all %d", got, body)
	}
}

// startReader pushes job 1 with a body too long for a command line.
func startReader(tb testing.TB, s shell, body string) {
	tb.Helper()
	cmd := exec.Command(binary, "push", "--id", "1", "t", "0", "-")
	cmd.Dir, cmd.Env, cmd.Stdin = s.dir, s.env, strings.NewReader(body)
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("push: %v, %s", err, out)
	}
}

// A job whose body can't be stored for its program loses no attempt, and is handled once it can. Its file has no name.
func TestWorkerWithoutTemp(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	temp := filepath.Join(s.dir, "temp")
	s.env = append(s.env, "TMPDIR="+temp)
	s.push("1", "body", "--max-attempts", "1")
	want := "ERROR: no room for the job's body: open " + temp + "/"
	if r := s.run("worker", "--topic", "t", "cat"); r.code != exit.Failed || !strings.HasPrefix(r.stderr, want) {
		t.Errorf("at the start: %+v, want %d, %s…", r, exit.Failed, want)
	}
	s.expect(0, "body\n", "", "pop", "t")
	check(t, os.Mkdir(temp, 0o700))
	p := s.startWorker("--exec", `ls "$TMPDIR"; cat`)
	check(t, os.Remove(temp))
	s.push("1", "body\n", "--max-attempts", "1")
	p.expect(p.stderr, `level=ERROR msg="the program can't be started, the job will be delivered again" error="no room for the job's body: open `+temp+`/`)
	s.becomes(db, "1", shown{State: "waiting", MaxAttempts: 1})
	check(t, os.Mkdir(temp, 0o700))
	db.Do("ZREM", "delayer:job_pool", "1")
	db.Do("LPUSH", "delayer:ready_queue:t", "1")
	p.expect(p.stdout, "body\n")
	p.stopped()
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 || p.stdout.String() != "body\n" {
		t.Errorf("left: %v, %v; the program saw %q", left, err, p.stdout)
	}
}
