package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// shell runs commands like a user, on a private Redis.
type shell struct {
	t    *testing.T
	dir  string
	env  []string
	here bool // in this process
}

func newShell(t *testing.T, redisArgs ...string) (shell, *redistest.Server) {
	t.Helper()
	db := redistest.Start(t, redisArgs...)
	_, port, _ := strings.Cut(db.Addr, ":")
	return shell{t: t, dir: t.TempDir(), env: environment(t, "DELAYER_REDIS_PORT="+port)}, db
}

// newShellHere returns a shell that runs its commands in this process. The test can't be parallel.
func newShellHere(t *testing.T, redisArgs ...string) (shell, *redistest.Server) {
	t.Helper()
	s, db := newShell(t, redisArgs...)
	return s.inHere(), db
}

func (s shell) inHere() shell {
	s.t.Helper()
	s.t.Chdir(s.dir)
	s.here = true
	return s
}

// run runs a command to its end.
func (s shell) run(args ...string) result {
	s.t.Helper()
	if s.here {
		return runHere(s.t, s.env, args...)
	}
	return runBinary(s.t, s.dir, s.env, args...)
}

// becomes waits until a job has the state, and compares what get shows.
func (s shell) becomes(db *redistest.Server, id string, want shown) {
	s.t.Helper()
	c := redistest.Must(client.New(client.UsePool(db.Pool(), db.Partitions)))
	defer c.Close()
	eventually(s.t, fmt.Sprintf("job %q is %q", id, want.State), func() bool {
		job, err := c.Get(s.t.Context(), id)
		return string(job.State) == want.State && (err == nil || want.State == "")
	})
	if got := s.get(id); got != want {
		s.t.Errorf("%s: got %+v, want %+v", id, got, want)
	}
}

// shown is the output of get for a job, without unpredictable values.
type shown struct {
	State         string
	Attempts      int
	MaxAttempts   int `json:"max_attempts"`
	Error, Reason string
}

func (s shell) get(id string) shown {
	s.t.Helper()
	r := s.run("get", "--json", id)
	var job shown
	if r.code == 0 && json.Unmarshal([]byte(r.stdout), &job) != nil {
		s.t.Fatalf("get %s: %+v", id, r)
	}
	return job
}

// expect runs a command and compares its exit code and outputs.
func (s shell) expect(code int, stdout, stderr string, args ...string) {
	s.t.Helper()
	r := s.run(args...)
	if r.code != code || r.stdout != stdout || r.stderr != stderr {
		s.t.Errorf("delayer %q:\n got %d, %q, %q\nwant %d, %q, %q", args, r.code, r.stdout, r.stderr, code, stdout, stderr)
	}
}

// keeps runs a command line, and checks its exit code and a part of its output.
func (s shell) keeps(line string, code int, promise string) {
	s.t.Helper()
	if r := s.run(shellWords(s.t, line)...); r.code != code || !strings.Contains(r.stdout+r.stderr, promise) {
		s.t.Errorf("delayer %s: %+v, want %d and %q", line, r, code, promise)
	}
}

// Bytes that are no UTF-8 come as they are or, in JSON, as base64. commandlines.txt has the other outputs.
func TestCommands(t *testing.T) {
	s, db := newShellHere(t)
	s.expect(0, `{"id":"order-2","outcome":"created"}`+"\n", "", "push", "--json", "--id=order-2", "close_order", "0", "<b>\n")
	s.expect(0, "order-4\n", "", "push", "close_order", "0", "\xff", "--id", "order-4")
	s.expect(6, "", `ERROR: push "order-4": a job of another topic has this ID: it is of "close_order", and the push is to "remind"; nothing was changed`+"\n", "push", "remind", "0", "b", "--id", "order-4")
	s.expect(0, `{"id_base64":"/wE=","outcome":"created"}`+"\n", "", "push", "close_order\xfe", "0", "b", "--id", "\xff\x01", "--json")
	s.expect(0, `{"id_base64":"/wE=","topic_base64":"Y2xvc2Vfb3JkZXL+","body":"b"}`+"\n", "", "--json", "pop", "close_order\xfe")
	s.expect(0, `{"id":"order-2","topic":"close_order","body":"<b>\n"}`+"\n", "", "pop", "--json", "close_order")
	s.expect(0, `{"id":"order-4","topic":"close_order","body_base64":"/w=="}`+"\n", "", "bpop", "close_order", "--json")
	db.Expect(redistest.State{})
}

// A removal says in which state the job was, and leaves a reserved one alone if it is told to.
func TestRemoveReserved(t *testing.T) {
	s, db := newShellHere(t)
	c := clienttest.On(db.Pool())
	defer c.Close()
	s.expect(0, "a\n", "", "push", "t", "0", "b", "--id", "a")
	if _, err := c.Reserve(t.Context(), time.Minute, "t"); err != nil {
		t.Fatal(err)
	}
	s.expect(6, "", `ERROR: remove "a": a consumer has reserved the job; nothing was changed`+"\n", "remove", "a", "--unless-reserved")
	s.expect(0, "removed a, which was reserved\n", "", "remove", "a")
}

// A push with --once can be repeated, even after the job is gone: it changes nothing, prints a note, and succeeds. Remove frees
// the ID.
func TestPushOnce(t *testing.T) {
	s, db := newShellHere(t)
	refused := `Note: a push of "a" counted before; this one changed nothing.` + "\n"
	s.expect(0, "a\n", "", "push", "t", "0", "first", "--id", "a", "--once", "10m")
	s.expect(0, `{"id":"a","outcome":"refused"}`+"\n", refused, "push", "t", "0", "second", "--id", "a", "--once", "10m", "--json")
	s.expect(0, "first\n", "", "pop", "t")
	s.expect(0, "a\n", refused, "push", "t", "0", "second", "--id", "a", "--once", "10m")
	db.Expect(redistest.State{Once: []string{"a"}})
	s.expect(0, `{"id":"a","outcome":"created"}`+"\n", "", "push", "t", "1h", "third", "--id", "a", "--json")
	s.expect(0, "removed a, which was waiting\n", "", "remove", "a")
	s.expect(0, "a\n", "", "push", "t", "0", "fourth", "--id", "a", "--once", "10m")
	s.expect(0, "fourth\n", "", "pop", "t")
}

// Pushes with --debounce make one job with the last body, due at the latest the given time after the
// first push.
func TestPushDebounced(t *testing.T) {
	s, _ := newShellHere(t)
	push := func(outcome, delay, body string) {
		t.Helper()
		s.expect(0, `{"id":"a","outcome":"`+outcome+`"}`+"\n", "", "push", "t", delay, body, "--id", "a", "--debounce", "1h", "--json")
	}
	push("created", "1h", "first")
	push("replaced", "0", "second")
	s.expect(0, "second\n", "", "pop", "t")
	const why = "ERROR: push: --debounce \"1h\": 1h is shorter than the delay of 2h"
	if r := s.run("push", "t", "2h", "b", "--id", "a", "--debounce", "1h"); r.code != 2 || !strings.HasPrefix(r.stderr, why) {
		t.Errorf("%+v", r)
	}
	push("created", "0", "third")
	s.expect(0, "third\n", "", "pop", "t")
}

// A push with --follow replaces a reserved job once that is done.
func TestPushFollows(t *testing.T) {
	s, db := newShellHere(t)
	push := func(outcome, body string) {
		t.Helper()
		s.expect(0, `{"id":"a","outcome":"`+outcome+`"}`+"\n", "", "push", "t", "0", body, "--id", "a", "--follow", "--json")
	}
	push("created", "first")
	c := clienttest.On(db.Pool())
	defer c.Close()
	held, err := c.Reserve(t.Context(), time.Hour, "t")
	check(t, err)
	push("followed", "second")
	s.keeps("get a", 0, "\nfollowed:      true\n")
	s.keeps("get a --json", 0, `"followed":true`)
	check(t, held.Ack(t.Context()))
	s.expect(0, "second\n", "", "pop", "t")
}

// Pushes with --group make one job and print its ID.
func TestPushToGroup(t *testing.T) {
	s, db := newShellHere(t)
	push := func(body string, more ...string) {
		t.Helper()
		args := append([]string{"push", "t", "0", body, "--group", "k", "--max", "3", "--longest", "1h"}, more...)
		if r := s.run(args...); r.code != 0 || !strings.HasPrefix(r.stdout, "{t:k}") || r.stderr != "" {
			t.Errorf("delayer %q: %+v", args, r)
		}
	}
	push(`{"n":1}`)
	push("2", "--id", "a", "--once", "1h")
	s.expect(0, "a\n", `Note: a push of "a" counted before; this one changed nothing.`+"\n", "push", "t", "0", "2", "--group", "k", "--quiet", "1h", "--id", "a", "--once", "1h")
	s.expect(2, "", "ERROR: push: invalid body: it is not JSON, of which a group's must be\n", "push", "t", "0", "no JSON", "--group", "k", "--longest", "1h")
	s.expect(2, "", "ERROR: push: DELAY \"5\": want 0 with --group\n", "push", "t", "5", "2", "--group", "k", "--longest", "1h")
	push("[3]")
	s.expect(0, `[{"n":1},2,[3]]`+"\n", "", "pop", "t")
	db.Expect(redistest.State{Once: []string{"{t:k}a"}})
}

// The error names the job, which is stored nevertheless.
func TestPushToReplicas(t *testing.T) {
	s, db := newShellHere(t)
	s.expect(6, "", `ERROR: push "a": the job is stored, but too few replicas have it: 0 of 1 had it in time`+"\n", "push", "t", "0", "b", "--id", "a", "--replicas", "1", "--replicas-timeout", "1ms")
	redistest.StartReplica(t, db)
	s.expect(0, "b\n", "", "push", "t", "0", "b", "--id", "b", "--replicas", "1", "--replicas-timeout", "10s")
	s.expect(0, "b\n", "", "pop", "t")
}

func TestGetCommand(t *testing.T) {
	s, db := newShellHere(t)
	const due = 1900000000.125
	for _, args := range [][]any{
		{"HSET", "delayer:job_bucket:w", "topic", "t", "body", "waits"},
		{"ZADD", "delayer:job_pool", due, "w"},
		{"HSET", "delayer:job_bucket:r", "topic", "t", "body", "is ready"},
		{"LPUSH", "delayer:ready_queue:t", "r"},
		{"EXPIRE", "delayer:job_bucket:r", 3600},
	} {
		db.Do(args[0].(string), args[1:]...)
	}
	before := db.State()
	at := time.UnixMilli(due * 1000)
	s.expect(0, "id:            w\ntopic:         t\nstate:         waiting\ndue:           "+at.Format(timeFormat)+"\nttl:           -\nattempts:      0\nbody:          waits\n", "", "get", "w")
	s.expect(0, `{"id":"w","topic":"t","state":"waiting","due":"`+at.UTC().Format(time.RFC3339Nano)+`","ttl":null,"attempts":0,"body":"waits"}`+"\n", "", "get", "w", "--json")

	r := s.run("get", "--json", "r")
	if !regexp.MustCompile(`^\{"id":"r","topic":"t","state":"ready","ttl":3[56]\d\d(\.\d+)?,"attempts":0,"body":"is ready"\}\n$`).MatchString(r.stdout) {
		t.Errorf("get r: %+v", r)
	}
	db.Expect(before)
}

func TestPushReadsStandardInput(t *testing.T) {
	t.Parallel()
	s, _ := newShell(t)
	for _, body := range []string{"from\nstdin\n", strings.Repeat("1 MiB\xff\n\x00", 1<<17), strings.Repeat("10 MiB\n\n", 10<<17)} {
		cmd := exec.Command(binary, "push", "t", "0", "-", "--id", "1")
		cmd.Env, cmd.Dir, cmd.Stdin = s.env, s.dir, strings.NewReader(body)
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "1\n" {
			t.Fatalf("%q, %v", out, err)
		}
		want := body
		if !strings.HasSuffix(want, "\n") {
			want += "\n"
		}
		if r := s.run("pop", "t"); r.code != 0 || r.stdout != want || r.stderr != "" {
			t.Errorf("%d bytes: exit code %d, %d bytes, %.100s", len(body), r.code, len(r.stdout), r.stderr)
		}
	}
}

// A tiny delay is typed in seconds. The library's warning about Go numbers without a unit is for other programs.
func TestTinyDelay(t *testing.T) {
	s, _ := newShell(t)
	for _, args := range [][]string{{"push", "t", "0.0001", "b", "--id", "1"}, {"reschedule", "1", "0.0001"}, {"bpop", "t", "--timeout", "0.0001"}} {
		if r := s.run(args...); strings.Contains(r.stderr, "time.Second") {
			t.Errorf("%q: %+v", args, r)
		}
	}
}

// --check-config starts nothing and names what it has checked.
func TestCheckConfiguration(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/delayer.conf", "[redis]\nport = 1\n")
	write(t, dir+"/other.conf", "[redis]\ntls = true\ntls_ca = other.conf\n")
	if r := runBinary(t, dir, environment(t), "--check-config"); r != (result{stdout: "delayer.conf: the configuration is good\n"}) {
		t.Errorf("%+v", r)
	}
	for name, want := range map[string]string{"other.conf": "ERROR: redis.tls_ca: ", "none.conf": "ERROR: configuration: open none.conf: "} {
		if r := runBinary(t, dir, environment(t), "--check-config", "-c", name); r.code != exit.Usage || r.stdout != "" || !strings.HasPrefix(r.stderr, want) {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := runBinary(t, t.TempDir(), environment(t), "--check-config"); r.code != exit.Usage || !strings.HasPrefix(r.stderr, "ERROR: no configuration file found") {
		t.Errorf("no file: %+v", r)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("made %v", left)
	}
}

// LC_ALL overrides LC_MESSAGES, which overrides LANG.
func TestHelpSpeaksTheLanguageOfTheEnvironment(t *testing.T) {
	help := func(variables string) string {
		return runBinary(t, t.TempDir(), environment(t, strings.Fields(variables)...), "help").stdout
	}
	english, chinese := help("LC_ALL=C"), help("LC_ALL=zh_CN.UTF-8")
	if !strings.Contains(english, "Exit codes") || !strings.Contains(chinese, "退出码") {
		t.Fatalf("%s\n%s", english, chinese)
	}
	for variables, want := range map[string]string{
		"": english, "LANG=zh_CN.UTF-8": chinese, "LANG=C LC_MESSAGES=zh_TW": chinese, "LANG=zh_CN LC_MESSAGES=de_DE": english,
		"LC_ALL=C LC_MESSAGES=zh_CN LANG=zh_CN": english, "LC_ALL= LANG=zh_CN": chinese,
	} {
		if got := help(variables); got != want {
			t.Errorf("%s: %s", variables, got)
		}
	}
}

func TestPartitionsCommand(t *testing.T) {
	s, r := newShellHere(t)
	s.expect(0, "partition  waiting  ready  reserved  dead  overdue  mover\n        0        0      0         0     0       0s      -\n", "", "partitions")

	s.env = append(s.env, "DELAYER_REDIS_PREFIX=shop:", "DELAYER_REDIS_PARTITIONS=2")
	s.expect(0, "{order}-1\n", "", "push", "t", "0", "b", "--id", "{order}-1") // the CRC16 of order is 0x3e99
	s.expect(0, "later\n", "", "push", "t", "1h", "b", "--id", "later")        // the CRC16 of later is 0x1353
	s.expect(0, `{"partitions":[{"partition":0,"waiting":0,"ready":0,"reserved":0,"dead":0,"overdue":0,"mover":null},`+
		`{"partition":1,"waiting":1,"ready":1,"reserved":0,"dead":0,"overdue":0,"mover":null}]}`+"\n", "", "partitions", "--json")
	redis := r.Pool()
	for _, server := range []store.ServerState{{ID: "one", Host: "one", PID: 1}, {ID: "2", Host: "t\nwo", PID: 2}} { // they prefer partitions 0 and 1
		server.Interval = time.Second
		_, err := store.New(redis, "shop:{0}:").Heartbeat(server, 1, 0).Do(t.Context())
		redistest.Check(t, err)
	}
	s.expect(0, "partition  waiting  ready  reserved  dead  overdue  mover\n"+
		"        0        0      0         0     0       0s  host one, pid 1\n"+
		"        1        1      1         0     0       0s  host t\\u000awo, pid 2\n", "", "partitions")
	r.Do("SET", "shop:{0}:job_pool", "broken")
	says := regexp.MustCompile(` script: [0-9a-f]+, on @user_script:\d+\.`).ReplaceAllString(s.run("partitions").stdout, "")
	if want := "partition  waiting  ready  reserved  dead  overdue  mover\n" +
		"        0        -      -         -     -        -  host one, pid 1\n" +
		"        1        1      1         0     0       0s  host t\\u000awo, pid 2\n" +
		"not complete: partition 0: WRONGTYPE Operation against a key holding the wrong kind of value\n"; says != want {
		t.Errorf("of a broken one: %q, want %q", says, want)
	}
	r.Do("DEL", "shop:{0}:job_pool")
	s.expect(0, "b\n", "", "pop", "t")
	s.expect(0, "removed later, which was waiting\n", "", "remove", "later")

	s.env = append(s.env, "DELAYER_REDIS_PARTITIONS=4")
	s.expect(3, "", `ERROR: push: partitions is 4 here, but 2 in Redis (shop:{0}:partitions): want the same number in all programs`+"\n", "push", "t", "0", "b")
}
