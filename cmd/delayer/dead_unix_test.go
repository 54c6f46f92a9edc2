//go:build !windows

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

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
