//go:build !windows

package main

import (
	"regexp"
	"testing"
)

func TestPauseCommands(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	s.expect(0, "", "", "paused")
	s.expect(0, "paused mail\n", "", "pause", "mail", "--for", "1h", "--note", "the server is moved,\nask Eve")
	s.expect(0, "a\n", "", "push", "mail", "0", "b", "--id", "a")
	s.expect(1, "", "pop \"mail\": no job is ready\n", "pop", "mail")
	for _, c := range []struct{ flag, want string }{
		{"", `^mail\t\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}\t\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}\tthe server is moved, … ask Eve\n$`},
		{"--json", `^\{"note":"the server is moved,\\nask Eve","since":"[^"]*Z","topic":"mail","until":"[^"]*Z"\}\n$`},
	} {
		args := []string{"paused"}
		if c.flag != "" {
			args = append(args, c.flag)
		}
		if r := runBinary(t, s.dir, s.env, args...); r.code != 0 || !regexp.MustCompile(c.want).MatchString(r.stdout) {
			t.Errorf("%q: %+v", args, r)
		}
	}
	s.expect(0, `{"paused":true,"topic":"mail"}`+"\n", "", "pause", "mail", "--json") // without end, and a note
	if r := runBinary(t, s.dir, s.env, "paused"); !regexp.MustCompile(`^mail\t[^\t]*\t\t\n$`).MatchString(r.stdout) {
		t.Errorf("%+v", r)
	}
	s.expect(0, "resumed mail\n", "", "resume", "mail")
	s.expect(0, "was not paused: mail\n", "", "resume", "mail")
	if len(db.Queue("mail")) != 1 {
		t.Errorf("ready are %q", db.Queue("mail"))
	}
}
