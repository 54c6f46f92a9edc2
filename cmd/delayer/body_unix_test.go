//go:build !windows

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/exit"
)

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
