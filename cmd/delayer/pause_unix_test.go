//go:build !windows

package main

import "testing"

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
