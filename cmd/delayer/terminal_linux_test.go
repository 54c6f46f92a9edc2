package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/shelltest"
)

// The contents of a job have no effect on a terminal. A pipe gets them unchanged, but they can't
// pass for another line.
func TestTerminal(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	const title, escaped = "\x1b]0;x\x07\u009b", `\u001b]0;x\u0007\u009b`
	show := func(args ...string) string {
		t.Helper()
		screen, terminal := shelltest.OpenTerminal(t)
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
	get := "id:            " + escaped + "\ntopic:         " + escaped + "\nstate:         ready\nttl:           -\nattempts:      0\nbody:          "
	seed()
	s.expect(0, get+title+"\n\tb\n", "", "get", title)
	s.expect(0, title+"\n\tb\n", "", "pop", title)
	s.expect(0, title+"\n", "", "push", "t", "0", "b", "--id", title)
	s.expect(0, "removed "+escaped+", which was ready\n", "", "remove", title)
	s.expect(1, "", `remove "\x1b]0;x\a\u009b": no such job`+"\n", "remove", title)
	shows := func(want string, args ...string) {
		t.Helper()
		seed()
		if got := show(args...); got != strings.ReplaceAll(want, "\n", "\r\n") {
			t.Errorf("%q: got %q, want %q", args, got, want)
		}
	}
	shows(get+escaped+"\n\tb\n", "get", title)
	shows(escaped+"\n\tb\n", "pop", title)
	shows(`{"id":"`+escaped+`","topic":"`+escaped+`","body":"`+escaped+`\n\tb`+"\"}\n", "pop", "--json", title)
	shows(escaped+"\n", "push", title, "0", "b", "--id", title)
}

// On a terminal, stats are redrawn in place: from the top left, clearing each line and the rest of the
// screen.
func TestWatchOnATerminal(t *testing.T) {
	t.Parallel()
	screen, terminal := shelltest.OpenTerminal(t)
	s, _ := newShell(t)
	p := startInto(t, s.dir, s.env, terminal, nil, "stats", "--watch", "10ms")
	var shown strings.Builder
	buffer := make([]byte, 4096)
	for strings.Count(shown.String(), "\x1b[J") < 3 {
		n, err := screen.Read(buffer)
		check(t, err)
		shown.Write(buffer[:n])
	}
	p.cmd.Process.Signal(syscall.SIGINT)
	p.ends(exit.Interrupted)
	for i, page := range strings.Split(shown.String(), "\x1b[J")[:3] {
		if !strings.HasPrefix(page, "\x1b[Htime:") || strings.Count(page, "\x1b[K\r\n") != strings.Count(page, "\n") || strings.Count(page, "\n") < 10 {
			t.Errorf("page %d is %q", i, page)
		}
	}
}

// answers runs a command that changes three jobs on a terminal, and answers its question.
func (s shell) answers(command, answer string, code int, shows string) {
	t := s.t
	t.Helper()
	screen, terminal := shelltest.OpenTerminal(t)
	cmd := exec.Command(binary, strings.Fields(command)...)
	cmd.Stdin, cmd.Stderr = terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // so that ctrl-C is a signal
	p := startCommand(t, s.dir, s.env, cmd)
	name := strings.NewReplacer(" --topic", "", " t", "").Replace(strings.Join(strings.Fields(command)[:2], " "))
	asks := name + ": jobs that it would change: 3; type 3 to confirm: "
	if got := readN(t, screen, len(asks)); got != asks {
		t.Errorf("%s: asks %q, want %q", command, got, asks)
	}
	_, err := screen.WriteString(answer)
	if len(answer) != 1 || answer[0] > ' ' {
		_, err = screen.WriteString("\n")
	}
	check(t, err)
	p.ends(code)
	shown, buffer := "", make([]byte, 4096)
	for !strings.Contains(shown, shows) {
		n, err := screen.Read(buffer)
		if err != nil {
			t.Fatalf("%s: %q, %v, want %q", command, shown, err, shows)
		}
		shown += string(buffer[:n])
	}
}

// On a terminal, a command that changes many jobs asks for their number, and changes nothing after any other answer. The null
// device is no terminal.
func TestConfirmOnATerminal(t *testing.T) {
	t.Parallel()
	s, db := newShell(t)
	seed := func() {
		for i := range 3 {
			id := fmt.Sprint("r", i)
			db.Do("HSET", "delayer:job_bucket:"+id, "topic", "t", "body", "b")
			db.Do("LPUSH", "delayer:ready_queue:t", id)
			bury(t, db, "t", fmt.Sprint("d", i), 1900000000125+i)
		}
	}
	for _, test := range []struct {
		command, answer string
		code            int
		shows           string // after the question and the echoed answer
	}{
		{"purge t", "3", 0, ""},
		{"purge t", "2", 6, "ERROR: purge: not confirmed, nothing was changed"},
		{"remove --topic t --match r*", " 3 ", 0, ""},
		{"remove --topic t --match r*", "yes", 6, "ERROR: remove: not confirmed, nothing was changed"},
		{"reschedule --topic t --match r* 1h", "3", 0, ""},
		{"reschedule --topic t --match r* 1h", "", 6, "ERROR: reschedule: not confirmed, nothing was changed"},
		{"dead requeue t", "3", 0, ""},
		{"dead requeue t", "\x04", 6, "ERROR: dead requeue: not confirmed, nothing was changed"}, // ctrl-D
		{"dead drop t", "3", 0, ""},
		{"dead drop t", "\x03", exit.Interrupted, ""}, // ctrl-C
	} {
		db.Flush()
		seed()
		before := db.State()
		s.answers(test.command, test.answer, test.code, test.shows)
		if changed := fmt.Sprint(db.State()) != fmt.Sprint(before); changed != (test.code == 0) {
			t.Errorf("%s, answer %q: changed is %v", test.command, test.answer, changed)
		}
	}
	db.Flush()
	seed()
	_, terminal := shelltest.OpenTerminal(t)
	null, err := os.Open(os.DevNull)
	check(t, err)
	defer null.Close()
	cmd := exec.Command(binary, "purge", "t")
	cmd.Stdin, cmd.Stderr = null, terminal
	startCommand(t, s.dir, s.env, cmd).ends(exit.Usage)
	s.expect(0, "would be purged: 3\n", "", "purge", "t", "--dry-run")
}

func readN(t *testing.T, f *os.File, n int) string {
	t.Helper()
	text := make([]byte, n)
	_, err := io.ReadFull(f, text)
	check(t, err)
	return string(text)
}
