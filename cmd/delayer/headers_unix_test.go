//go:build !windows

package main

import (
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

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
