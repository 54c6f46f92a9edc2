//go:build !windows

package main

import (
	"bytes"
	"os"
	"os/exec"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// An unwritable output is detected before a job is taken. A command that has already acted reports
// that.
func TestFullDisk(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /dev/full")
	}
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	check(t, err)
	defer full.Close()
	s, db := newShell(t)
	expect := func(rest string, args ...string) {
		t.Helper()
		p := startInto(t, s.dir, s.env, full, nil, args...)
		want := "ERROR: output: write /dev/stdout: no space left on device" + rest + "\n"
		if code := p.wait(); code != exit.Output || anyTime.ReplaceAllString(p.stderr.String(), "2100-01-01T00:00:00Z") != want {
			t.Errorf("%q: exit code %d, %s, want %s", args, code, p.stderr, want)
		}
	}
	expect(`; not printed: {"id_base64":"Mf8=","outcome":"created"}`, "push", "t\xfe", "0", "a body\xfd", "--id", "1\xff")
	before := readAll(t, db)
	expect("", "pop", "t\xfe")
	expect("", "bpop", "--json", "t\xfe")
	expect("", "get", "1\xff")
	expectAll(t, db, before)
	expect(`; not printed: {"was":"ready"}`, "remove", "1\xff")
	expect(`; not printed: paused t`, "pause", "t")
	expect("", "topics", "--paused", "--json")
	expect(`; not printed: {"was_paused":true}`, "resume", "t")
	expect(`; not printed: {"topic":"t","concurrency":1,"slots_taken":0,"throttled":0}`, "limit", "t", "--concurrency", "1")
	expect("", "limit", "t")
	expect(`; not printed: {"topic":"t"}`, "limit", "t", "--none")
	expect(`; not printed: {"name_base64":"YfI=","next":"2100-01-01T00:00:00Z"}`, "schedule", "set", "a\xf2", "@every 8h", "t", "b")
	expect("", "schedule", "list")
	expect("", "schedule", "next", "@daily")
	expect(`; not printed: paused a\xf2`, "schedule", "pause", "a\xf2")
	expect(`; not printed: resumed a\xf2`, "schedule", "resume", "a\xf2")
	expect(`; not printed: removed a\xf2`, "schedule", "remove", "a\xf2")
	expect("", "--help")
	expect("", "version")
	db.Expect(redistest.State{})
}

var anyTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)

// A closed output is detected, too. /dev/null may be used to discard jobs.
func TestClosedOutput(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	s.push("1", "body")
	before := readAll(t, db)
	redirected := func(to string, code int, stderr string, args ...string) {
		t.Helper()
		cmd := exec.Command("sh", append([]string{"-c", `exec "$0" "$@" ` + to, binary}, args...)...)
		p := startCommand(t, s.dir, s.env, cmd)
		if got := p.wait(); got != code || p.stderr.String() != stderr {
			t.Errorf("%q %s: exit code %d, %q, want %d, %q", args, to, got, p.stderr, code, stderr)
		}
	}
	const closed = "ERROR: output: it is closed, or /dev/null for reading, too: want it open for writing\n"
	redirected(">&-", exit.Output, closed, "pop", "t")
	redirected(">&-", exit.Output, closed, "bpop", "empty")
	redirected(">&-", exit.Output, closed, "push", "t", "0", "body") // its ID would be lost
	redirected("</dev/null >&0", exit.Output, "ERROR: output: write /dev/stdout: bad file descriptor\n", "pop", "t")
	expectAll(t, db, before)
	redirected(">/dev/null", exit.Done, "", "pop", "t")
	db.Expect(redistest.State{})
}

// readAll returns everything in Redis, except for the traces of a lease: its token, and a count of
// 0.
func readAll(tb testing.TB, db *redistest.Server) map[string]any {
	tb.Helper()
	all := map[string]any{}
	for _, key := range db.Strings("KEYS", "*") {
		switch kind := db.Do("TYPE", key); {
		case kind == "list":
			all[key] = db.Strings("LRANGE", key, 0, -1)
		case key == "delayer:topics" || key == "delayer:reserved":
		case kind == "zset":
			all[key] = db.Strings("ZRANGE", key, 0, -1, "WITHSCORES")
		case kind == "hash":
			fields, err := redis.StringMap(db.Do("HGETALL", key), nil)
			check(tb, err)
			if lease := strings.Fields(fields["lease"]); len(lease) > 0 {
				fields["lease"] = lease[0] // keeps the attempts
			}
			if fields["lease"] == "0" {
				delete(fields, "lease")
			}
			all[key] = fields
		}
	}
	return all
}

func expectAll(tb testing.TB, db *redistest.Server, want map[string]any) {
	tb.Helper()
	if got := readAll(tb, db); !reflect.DeepEqual(got, want) {
		tb.Errorf("in Redis:\n got %v\nwant %v", got, want)
	}
}

// unread is a pop of job 1 whose output is not read, and fails once it is closed. The job has failed
// before, and other jobs are behind it.
type unread struct {
	s      shell
	db     *redistest.Server
	p      *process
	output *os.File
	left   map[string]any // contents of Redis before and after the pop; nil: unpredictable
}

// startPop waits until the pop has the job.
func startPop(t *testing.T) *unread {
	t.Helper()
	s, db := newShell(t)
	output, full := fullPipe(t)
	db.Do("HSET", "delayer:job_bucket:1", "topic", "t", "body", "old", "options", "5 70000 604800000", "lease", "2 7 0", "error", "no")
	db.Do("HSET", "delayer:job_bucket:2", "topic", "t", "body", "other")
	db.Do("LPUSH", "delayer:ready_queue:t", "1", "2")
	j := &unread{s, db, nil, output, readAll(t, db)}
	j.p = startInto(t, s.dir, s.env, full, nil, "pop", "t")
	full.Close() // lets a reader see the end of the pop
	eventually(t, "the job is reserved", func() bool { return db.Do("ZCARD", "delayer:job_pool") == int64(1) })
	return j
}

// extended waits until the lease is extended: the pop has then received the job.
func (j *unread) extended() {
	j.s.t.Helper()
	first := j.db.Due("1")
	eventually(j.s.t, "the lease is extended", func() bool {
		time.Sleep(20 * time.Millisecond) // it takes seconds
		return j.db.Due("1") > first
	})
}

func (p *process) expectError(code int, text string) {
	p.tb.Helper()
	if got := p.wait(); got != code || !strings.Contains(p.stderr.String(), text) {
		p.tb.Errorf("exit code %d, %s, want %d, %s", got, p.stderr, code, text)
	}
}

// An unread job is delivered next again with all its fields, whatever ended the command; its lease lasts
// until then. A newer job with the same ID stays. A job that was read but can't be acknowledged is no
// success: it may be delivered again.
func TestUnreadJob(t *testing.T) {
	pushAnew := func(j *unread) {
		j.s.expect(0, "1\n", "", "push", "t", "0", "new", "--id", "1")
		j.left = readAll(j.s.t, j.db)
	}
	lose := func(j *unread) {
		j.extended()
		j.db.Kill()
		j.left = nil
	}
	for name, test := range map[string]struct {
		happens func(*unread)
		late    bool // waits until a lease is extended, 5 s
		read    bool // otherwise the output is closed then
		code    int
		said    string
	}{
		"closed": {func(*unread) {}, false, false, exit.Output, `; job "1" is ready again`},
		"signal": {func(j *unread) {
			j.extended()
			j.p.signal(syscall.SIGTERM)
			j.p.wait()
		}, true, false, exit.Output, `output: it is not read; job "1" is ready again`},
		"GNU timeout": {func(j *unread) {
			j.extended()
			j.p.signal(syscall.SIGTERM)
			j.p.signal(syscall.SIGTERM)
			j.p.wait()
		}, true, false, exit.Output, `; job "1" is ready again`},
		"closed late": {(*unread).extended, true, false, exit.Output, `; job "1" is ready again`},
		"pushed anew": {pushAnew, false, false, exit.Output, `; job "1" is not ours any more: it was pushed anew or removed`},
		"read, pushed anew": {pushAnew, false, true, exit.Failed,
			`job "1" was printed, but is not ours any more: it was pushed anew or removed, or our lease has ended; it may be delivered again`},
		"Redis is away":       {lose, true, false, exit.Output, `; job "1" can't be released: …; it is delivered again when its lease ends, in 30s at most`},
		"read, Redis is away": {lose, true, true, exit.Redis, `job "1" was printed, but is delivered again when its lease ends, in 30s at most: `},
	} {
		t.Run(name, func(t *testing.T) {
			if test.late {
				redistest.Long(t)
			}
			t.Parallel()
			j := startPop(t)
			test.happens(j)
			if test.read {
				readOld(t, j.output)
			} else {
				j.output.Close()
			}
			for said := range strings.SplitSeq(test.said, "…") {
				j.p.expectError(test.code, said)
			}
			if j.left != nil {
				expectAll(t, j.db, j.left)
			}
		})
	}
}

// A killed command leaves a lease behind. When that ends, the job is delivered again.
func TestUnreadJobOfAKilledPop(t *testing.T) {
	t.Parallel()
	j := startPop(t)
	j.p.cmd.Process.Kill()
	j.p.wait()
	j.db.Expect(redistest.State{
		Reserved: []string{"1"}, Counts: map[string]string{"t": "1"},
		Ready: map[string][]string{"t": {"2"}}, Buckets: map[string]string{"1": "t old", "2": "t other"},
	})
	if left := j.db.Due("1") - j.db.Clock(); !(left <= 30+1) {
		t.Errorf("the lease ends in %v s", left)
	}
}

// A command that Redis forbids is not retried.
func TestReadJobMayNotBeAcknowledged(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	s.push("1", "body")
	db.SetUser(redistest.Rights(t, "worker") + " -del")
	s.env = append(s.env, "DELAYER_REDIS_USERNAME=u", "DELAYER_REDIS_PASSWORD=p")
	r := s.run("pop", "t")
	if r.code != exit.Redis || r.stdout != "body\n" || !strings.Contains(r.stderr, `job "1" was printed, but is delivered again when its lease ends, in 30s at most: `) {
		t.Errorf("%+v", r)
	}
	refused := db.Do("ACL", "LOG").([]any)
	if len(refused) != 1 || refused[0].([]any)[1] != int64(1) { // number of refusals
		t.Errorf("refused: %q", refused)
	}
	db.Expect(redistest.State{
		Reserved: []string{"1"}, Counts: map[string]string{"t": "1"}, Buckets: map[string]string{"1": "t body"},
	})
}

// readOld reads until the whole body has arrived.
func readOld(tb testing.TB, output *os.File) {
	tb.Helper()
	var got []byte
	for piece := make([]byte, 64<<10); !bytes.Contains(got, []byte("old\n")); {
		n, err := output.Read(piece)
		check(tb, err)
		got = append(got, piece[:n]...)
	}
}

// A user who may only pop takes the job without a lease.
func TestPopWithoutReserve(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	db.SetUser(redistest.Rights(t, "consumer"))
	s.push("1", "body")
	s.push("2", "body 2")
	s.push("3", "body 3")
	s.env = append(s.env, "DELAYER_REDIS_USERNAME=u", "DELAYER_REDIS_PASSWORD=p")
	s.expect(0, "body\n", "", "pop", "t")
	s.expect(0, "body 2\n", "", "bpop", "t", "10")
	s.expect(1, "", `pop "u": no job is ready`+"\n", "pop", "u")
	reader, writer, err := os.Pipe()
	check(t, err)
	defer writer.Close()
	reader.Close()
	startInto(t, s.dir, s.env, writer, nil, "pop", "t").expectError(exit.Output, `; not printed: {"id":"3","topic":"t","body":"body 3"}`)
	db.Expect(redistest.State{})
}
