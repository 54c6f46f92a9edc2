package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openTerminal returns both ends of a terminal.
func openTerminal(tb testing.TB) (screen, terminal *os.File) {
	tb.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		tb.Skip(err)
	}
	tb.Cleanup(func() { screen.Close() })
	check(tb, unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0))
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	check(tb, err)
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	check(tb, err)
	tb.Cleanup(func() { terminal.Close() })
	return screen, terminal
}

// What a job holds does not act on a terminal. In a pipe it is what it is, but
// can't pass for another line.
func TestTerminal(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	const title, escaped = "\x1b]0;x\x07\u009b", `\u001b]0;x\u0007\u009b`
	show := func(args ...string) string {
		t.Helper()
		screen, terminal := openTerminal(t)
		if code := startInto(t, s.dir, s.env, terminal, nil, args...).wait(); code != 0 {
			t.Fatalf("%q: exit code %d", args, code)
		}
		text := make([]byte, 4096)
		n, err := screen.Read(text)
		check(t, err)
		return string(text[:n])
	}
	seed := func() {
		db.Do("HSET", "delayer:job_bucket:"+title, "topic", title, "body", title+"\n\tb")
		db.Do("LPUSH", "delayer:ready_queue:"+title, title)
	}
	get := "id:    " + escaped + "\ntopic: " + escaped + "\nstate: ready\nkept:  for ever\nbody:  "
	seed()
	s.expect(0, get+title+"\n\tb\n", "", "get", title)
	s.expect(0, title+"\n\tb\n", "", "pop", title)
	s.expect(0, title+"\n", "", "push", "t", "0", "b", "--id", title)
	s.expect(0, "removed "+escaped+"\n", "", "remove", title)
	s.expect(1, "", `remove "\x1b]0;x\a\u009b": no such job`+"\n", "remove", title)
	for _, test := range []struct {
		want string
		args []string
	}{
		{get + escaped + "\n\tb\n", []string{"get", title}},
		{escaped + "\n\tb\n", []string{"pop", title}},
		{`{"body":"` + escaped + `\n\tb","id":"` + escaped + `","topic":"` + escaped + "\"}\n", []string{"pop", "--json", title}},
		{escaped + "\n", []string{"push", "t", "0", "b", "--id", title}},
	} {
		seed()
		if got := show(test.args...); got != strings.ReplaceAll(test.want, "\n", "\r\n") {
			t.Errorf("%q: got %q, want %q", test.args, got, test.want)
		}
	}
}
