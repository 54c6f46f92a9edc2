//go:build !windows

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// bury makes a dead letter.
func bury(tb testing.TB, db *redistest.Server, topic, id string, died int, fields ...any) {
	tb.Helper()
	key := "delayer:dead_letter:" + id
	db.Do("HSET", append([]any{key, "topic", topic, "body", "body " + id, "died", died}, fields...)...)
	db.Do("ZADD", "delayer:dead_letters:"+topic, died, id)
	db.Do("ZADD", "delayer:dead_topics", "NX", died, topic)
}

func TestDeadCommands(t *testing.T) {
	s, db := newShellHere(t)
	s.expect(0, "id  died  attempts  reason  error\n", "", "dead", "list", "t")
	s.expect(0, `{"jobs":[]}`+"\n", "", "dead", "list", "t", "--json")
	s.expect(0, "requeued 0\n", "", "dead", "requeue", "t")
	s.expect(0, `{"count":0,"complete":true}`+"\n", "", "dead", "drop", "t", "--json")

	bury(t, db, "t", "1", 1900000000125, "lease", "10 1 0", "options", "10 0 604800000", "reason", "all 10 attempts used up", "error", "exit status 1: no\x1b[31m\nmore")
	bury(t, db, "t", "2\xff\n", 1900000001125, "reason", "bad\tdata\nand more")
	bury(t, db, "u", "3", 1900000000125, "lease", "1 1 0")
	at := time.UnixMilli(1900000000125)
	before, after := at.Format(timeFormat), at.Add(time.Second).Format(timeFormat)
	s.expect(0, "id           died                     attempts  reason                    error\n"+
		`2\xff\u000a  `+after+`         0  bad\u0009data … and more  -`+"\n1            "+before+`        10  all 10 attempts used up   exit status 1: no\u001b[31m … more`+"\n", "", "dead", "list", "t")
	s.expect(0, `{"jobs":[{"id_base64":"Mv8K","topic":"t","state":"dead","died":"2030-03-17T17:46:41.125Z","attempts":0,"reason":"bad\tdata\nand more","size":8,"preview_base64":"Ym9keSAy/wo="},`+
		`{"id":"1","topic":"t","state":"dead","died":"2030-03-17T17:46:40.125Z","attempts":10,"reason":"all 10 attempts used up","error":"exit status 1: no\u001b[31m\nmore","size":6,"preview":"body 1"}]}`+"\n", "", "--json", "dead", "list", "t")
	s.expect(0, `{"id":"1","topic":"t","state":"dead","died":"2030-03-17T17:46:40.125Z","ttl":null,"attempts":10,"max_attempts":10,"reason":"all 10 attempts used up","error":"exit status 1: no\u001b[31m\nmore","body":"body 1"}`+"\n", "", "get", "--json", "1")
	s.expect(0, "id:            1\ntopic:         t\nstate:         dead\ndied:          "+before+"\nttl:           -\nattempts:      10\nmax_attempts:  10\nreason:        all 10 attempts used up\n"+
		"error:         exit status 1: no\\u001b[31m\n               more\nbody:          body 1\n", "", "get", "1")

	// The ID must belong to a letter of the topic.
	dead := db.State()
	s.expect(1, "", `dead requeue "u" "1": no such dead letter`+"\n", "dead", "requeue", "u", "1")
	s.expect(1, "", `dead requeue "t" "none": no such dead letter`+"\n", "dead", "requeue", "t", "none")
	s.expect(1, "", `dead drop "u" "1": no such dead letter`+"\n", "dead", "drop", "u", "1")
	db.Expect(dead)

	// A job with the same ID blocks a dead letter. The others are requeued.
	s.expect(0, "1\n", "", "push", "t", "0", "new", "--id", "1")
	s.expect(6, "", `ERROR: dead requeue "t" "1": a job with this ID exists; nothing was changed`+"\n", "dead", "requeue", "t", "1")
	r := s.run("dead", "requeue", "t")
	if r.code != 6 || r.stdout != "" || r.stderr != "ERROR: dead requeue \"t\": some remain dead letters because jobs with their IDs exist\nERROR: others are requeued: 1\n" {
		t.Errorf("%+v", r)
	}
	s.expect(6, "", "ERROR: dead requeue \"t\": some remain dead letters because jobs with their IDs exist\n", "dead", "requeue", "t")
	s.expect(0, "removed 1, which was ready\n", "", "remove", "1")
	s.expect(0, `{"count":1,"complete":true}`+"\n", "", "dead", "requeue", "--json", "t", "1")
	s.expect(0, "dropped 1\n", "", "dead", "drop", "u", "3")
	db.Expect(redistest.State{
		Ready:   map[string][]string{"t": {"2\xff\n", "1"}},
		Buckets: map[string]string{"1": "t body 1", "2\xff\n": "t body 2\xff\n"},
	})
}

// A list longer than one printed batch is complete.
func TestDeadListIsWhole(t *testing.T) {
	s, db := newShellHere(t)
	want, head := "", fmt.Sprintf("%-100s  %-23s  attempts  reason  error\n", "id", "died")
	for i := range 1200 {
		id := fmt.Sprintf("%0100d", i)
		bury(t, db, "t", id, 1900000000000+i)
		want = fmt.Sprintf("%s  %s         0       -      -\n", id, time.UnixMilli(1900000000000+int64(i)).Format(timeFormat)) + want
	}
	s.expect(0, head+want, "", "dead", "list", "t")
	s.expect(0, "dropped 1200\n", "", "dead", "drop", "t", "--confirm", "1200")
	db.Expect(redistest.State{})
}

// Nothing selected is nothing to do: 0. Only what is named must be there: 1. What deletes many needs --confirm in a script.
func TestSelectionOfNone(t *testing.T) {
	s, db := newShellHere(t)
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{0, "removed 0", []string{"remove", "--topic", "t", "--match", "none*"}},
		{0, "rescheduled 0", []string{"reschedule", "0", "--topic", "t", "--match", "none*"}},
		{0, "purged 0", []string{"purge", "t"}},
		{0, "dropped 0", []string{"dead", "drop", "t", "--match", "none*"}},
		{0, "requeued 0", []string{"dead", "requeue", "t", "--match", "none*"}},
		{1, "", []string{"remove", "none"}},
		{1, "", []string{"reschedule", "none", "0"}},
		{1, "", []string{"dead", "drop", "t", "none"}},
		{1, "", []string{"dead", "drop", "t", "none", "--dry-run"}},
	} {
		if r := s.run(c.args...); r.code != c.code || strings.TrimSpace(r.stdout) != c.says {
			t.Errorf("%q: %+v, want %d, %q", c.args, r, c.code, c.says)
		}
	}
	bury(t, db, "t", "1", 1900000000125)
	s.expect(2, "", "ERROR: dead drop: jobs that it would change: 1; add --confirm 1, or --dry-run to change nothing\n", "dead", "drop", "t")
	s.expect(0, "dropped 1\n", "", "dead", "drop", "t", "--confirm", "1")
}

// A purge that fails half-way says how many jobs are gone. One that can't count the jobs does nothing.
func TestPurgeHalfway(t *testing.T) {
	db := redistest.Start(t)
	db.Do("ACL", "SETUSER", "u", "on", ">p", "+@all", "-del", "~*", "&*", "(+del ~delayer:{0}:*)")
	s := shell{t: t, dir: t.TempDir(), env: environment(t, "DELAYER_REDIS_URL=redis://u:p@"+db.Addr+"?partitions=2")}.inHere()
	db.Do("HSET", "delayer:{0}:job_bucket:a", "topic", "t", "body", "b")
	db.Do("LPUSH", "delayer:{0}:ready_queue:t", "a")
	db.Do("HSET", "delayer:{1}:job_bucket:b", "topic", "t", "body", "b")
	db.Do("LPUSH", "delayer:{1}:ready_queue:t", "b")
	matches(t, "purge", s.fails(3, "purge", "t", "--confirm", "2"), `(?s)^ERROR: purge.*\nERROR: others are purged: 1\n$`)
	db.Do("SET", "delayer:{0}:ready_queue:t", "x")
	matches(t, "purge", s.fails(3, "purge", "t", "--confirm", "2"), `ERROR: .*the topic's ready jobs can't be counted: delayer fsck names the broken key\n`)
}

// The command that limits a topic by a tag, and get, report how many of its ready jobs lack the tag, and what to do.
func TestLimitWithATagThatJobsLack(t *testing.T) {
	s, db := newShellHere(t)
	s.env = append(s.env, "DELAYER_REDIS_PARTITIONS=4")
	c := redistest.Must(client.OpenPool(client.PoolOptions{Addr: db.Addr, Partitions: 4}))
	defer c.Close()
	elsewhere := 0
	for i := range 20 {
		pushed, err := c.Push(t.Context(), client.Message{ID: fmt.Sprint(i), Topic: "mail", Body: "b"}, 0)
		check(t, err)
		if store.PartitionOf(pushed.ID, 4) != store.PartitionOf("{vip}", 4) {
			elsewhere++
		}
	}
	told := fmt.Sprintf("ready jobs without the tag vip, which nobody will get: %d; set a limit without a tag, or push them again with that tag in their IDs", elsewhere)
	use := fmt.Sprintf("slots taken 0, throttled 0; %s\n", told)
	s.expect(0, "mail: concurrency 4, tag vip; "+use, "", "limit", "mail", "--concurrency", "4", "--tag", "vip")
	s.expect(0, "mail: concurrency 4, tag vip; "+use, "", "limit", "mail")
	s.keeps("limit mail --json", 0, fmt.Sprintf(`"untagged":%d`, elsewhere))
	for i := range 20 {
		if store.PartitionOf(fmt.Sprint(i), 4) != store.PartitionOf("{vip}", 4) {
			s.keeps(fmt.Sprint("get ", i), 0, told)
			break
		}
	}
	s.expect(0, "mail: concurrency 4; slots taken 0, throttled 0\n", "", "limit", "mail", "--concurrency", "4")
	s.expect(0, "news: concurrency 4, tag vip; slots taken 0, throttled 0\n", "", "limit", "news", "--concurrency", "4", "--tag", "vip")
}

func TestPauseCommands(t *testing.T) {
	s, db := newShellHere(t)
	const columns = "topic  ready  reserved  dead  throttled  overdue  limit  paused\n"
	s.expect(0, columns, "", "topics", "--paused")
	s.expect(0, "paused mail\n", "", "pause", "mail", "--for", "1h", "--note", "the server is moved,\nask Eve")
	s.expect(0, "a\n", "", "push", "mail", "0", "b", "--id", "a")
	const at = `\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}`
	paused := "the topic is paused since " + at + ", until " + at + ": the server is moved, … ask Eve\n"
	matches(t, "pop", s.fails(1, "pop", "mail"), `pop "mail": no job is ready; `+paused)
	matches(t, "get", s.run("get", "a").stderr, "Note: "+paused)
	matches(t, "get --json", s.run("get", "a", "--json").stderr, "Note: "+paused)
	matches(t, "pause again", s.fails(2, "pause", "mail"),
		`ERROR: pause "mail": it is paused already since `+at+", until "+at+": the server is moved, … ask Eve; add --replace to give it another end and note\n")
	if n := len(db.Strings("HVALS", "delayer:paused")); n != 1 {
		t.Errorf("%d topics are paused", n)
	}
	matches(t, "paused", s.run("topics", "--paused").stdout, `[^\n]*\nmail  .* since `+at+`, until `+at+`, note the server is moved, … ask Eve\n`)
	matches(t, "paused --json", s.run("topics", "--paused", "--json").stdout,
		`\{"topics":\[\{"topic":"mail",.*"paused":\{"since":"[^"]*Z","until":"[^"]*Z","note":"the server is moved,\\nask Eve"\}\}\]\}\n`)
	s.expect(0, "{}\n", "", "pause", "mail", "--replace", "--json") // without end, and a note
	s.expect(0, "paused mail\n", "", "pause", "mail")               // unchanged
	matches(t, "paused", s.run("topics", "--paused").stdout, `[^\n]*\nmail  .* since `+at+`\n`)
	s.expect(0, "resumed mail\n", "", "resume", "mail")
	s.expect(0, "was not paused: mail\n", "", "resume", "mail")
	if len(db.Queue("mail")) != 1 {
		t.Errorf("ready are %q", db.Queue("mail"))
	}
}

// fails runs a command that prints nothing on stdout and exits with that code, and returns its
// error.
func (s shell) fails(code int, args ...string) string {
	s.t.Helper()
	r := s.run(args...)
	if r.code != code || r.stdout != "" {
		s.t.Errorf("delayer %q: %+v, want code %d", args, r, code)
	}
	return r.stderr
}

// The output of pop and get for a topic at its limit mentions the limit.
func TestThrottledTopicIsSaid(t *testing.T) {
	s, _ := newShellHere(t)
	for _, id := range []string{"a", "b"} {
		s.expect(0, id+"\n", "", "push", "mail", "0", "body", "--id", id)
	}
	s.expect(0, "mail: concurrency 2, rate 3.6/h; slots taken 0, throttled 0\n", "", "limit", "mail", "--concurrency", "2", "--rate", "0.001/s")
	s.expect(0, "body\n", "", "pop", "mail")
	const reached = `its limit has been reached \(slots taken 0, throttled 1, throttled until [^)]*\)`
	matches(t, "pop", s.fails(1, "pop", "mail"), `pop "mail": no job is ready; `+reached+"\n")
	matches(t, "get", s.run("get", "b").stderr, "Note: "+reached+"\n")
	matches(t, "get --json", s.run("get", "b", "--json").stderr, "Note: "+reached+"\n")
}

// What is wrong with --url, its token, or what answers there is said, with an exit code.
func TestWrongURL(t *testing.T) {
	t.Parallel()
	site := newSite(t, redistest.Start(t).Addr, "[http]", "listen = 127.0.0.1:0", "token = 0123456789abcdef", "read_only = true")
	at := urlOf(startBinary(t, site.dir, environment(t), "-c", site.conf))
	foreign := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(foreign.Close)
	dir := t.TempDir()
	write(t, dir+"/token", "0123456789abcdef\n")
	write(t, dir+"/empty", "\n")
	for _, c := range []struct {
		line string
		code int
		says string
	}{
		{"topics --url " + at, 2, "wants a token: set DELAYER_TOKEN, or use --token-file"},
		{"topics --token-file token --url " + at, 0, ""},
		{"topics --token-file token --url " + at + "/", 0, ""},
		{"topics --token-file empty --url " + at, 2, "--token-file: it is empty"},
		{"topics --token-file none --url " + at, 2, "--token-file: open none: "},
		{"push t 0 b --token-file token --url " + at, 6, "read_only is set in [http]"},
		{"topics --url ftp://host", 2, "--url: want the address of a daemon's HTTP server, such as http://host:9277"},
		{"topics --url localhost:9277", 2, "--url: want the address"},
		{"topics --url http://127.0.0.1:1", 3, "no response from http://127.0.0.1:1: "},
		{"topics --url http://u:secret@127.0.0.1:1", 3, "no response from http://u:xxxxx@127.0.0.1:1: "},
		{"topics --url " + foreign.URL, 6, foreign.URL + " does not respond as Delayer's /v1 does: Not Found"},
		{"topics --url " + at + " --redis redis://127.0.0.1:1", 2, "--url says where the daemon is: leave out --redis and -c"},
		{"bpop t --url " + at, 2, "bpop does not work over HTTP: leave out --url"},
		{"--url " + at, 2, "--url and --token-file are for a command"},
	} {
		r := runBinary(t, dir, environment(t), strings.Fields(c.line)...)
		if r.code != c.code || !strings.Contains(r.stderr, c.says) {
			t.Errorf("delayer %s: %+v, want %d and %q", c.line, r, c.code, c.says)
		}
	}
}
