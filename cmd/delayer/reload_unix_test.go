//go:build !windows

package main

import (
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// SIGUSR2 applies a changed token, changed schedules and changed limits of dead letters, logs which settings need a restart, and
// changes nothing if the file has a mistake.
func TestReload(t *testing.T) {
	const first, second = "0123456789abcdef", "fedcba9876543210"
	db := redistest.Start(t)
	s := newSite(t, db.Addr, "[http]\nlisten = 127.0.0.1:0\ntoken = "+first+"\n[schedule.a]\ncron = 0 3 * * *\ntopic = t")
	p := s.started(t)
	_, url, _ := strings.Cut(p.stdout.String(), "HTTP server:\t")
	url, _, _ = strings.Cut(url, "\n")
	ask := func(token, path string) (int, string) {
		t.Helper()
		return get(t, http.DefaultClient, url+path, "Authorization", "Bearer "+token)
	}
	schedules := func(token, want string) {
		t.Helper()
		eventually(t, "schedules with "+want, func() bool {
			code, text := ask(token, "v1/schedules")
			return code == 200 && strings.Contains(text, want) && strings.Count(text, `"name"`) == 1
		})
	}
	schedules(first, `"name":"a"`)

	s.change(t, "token = "+first, "token = "+second)
	s.change(t, "[schedule.a]", "[schedule.b]")
	s.change(t, "timer_interval = 10\n", "timer_interval = 20\ndead_max = 3\n")
	p.signal(syscall.SIGUSR2)
	p.expect(p.stdout, "Configuration reloaded: schedules, token, users and limits of dead letters are in force; a restart is needed for delayer.timer_interval\n")
	schedules(second, `"name":"b"`)
	if code, _ := ask(first, "v1/schedules"); code != 401 {
		t.Errorf("with the old token: %d", code)
	}

	s.change(t, "token = "+second, "token = short")
	s.change(t, "[schedule.b]", "[schedule.c]")
	p.signal(syscall.SIGUSR2)
	eventually(t, "the mistake is logged", func() bool {
		return strings.Contains(read(t, s.errors), "The configuration was not reloaded, the previous one stays in force: ")
	})
	schedules(second, `"name":"b"`)

	s.change(t, "token = short\n", "")
	s.change(t, "[schedule.c]", "[schedule.b]")
	p.signal(syscall.SIGUSR2)
	p.expect(p.stdout, "a restart is needed for delayer.timer_interval, http: no token and no users\n")
	if code, _ := ask("", "v1/schedules"); code != 401 {
		t.Errorf("without a token: %d", code)
	}
	p.stopped()
}

// In the background a reload reads the file that was found at the start, not one that a search from / finds, and finds the files that
// it names by relative paths.
func TestReloadInBackground(t *testing.T) {
	db := redistest.Start(t)
	s := newSite(t, db.Addr, "[http]\nlisten = 127.0.0.1:0\ntoken_file = token\n[schedule.a]\ncron = 0 3 * * *\ntopic = t")
	write(t, s.dir+"/token", "0123456789abcdef")
	others := t.TempDir()
	write(t, others+"/delayer/delayer.conf", read(t, s.conf)[:strings.Index(read(t, s.conf), "[http]")])
	if r := runBinary(t, s.dir, environment(t, "XDG_CONFIG_HOME="+others), "-d"); r.code != 0 {
		t.Fatal(r)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(read(t, s.pid)))
	check(t, err)
	eventually(t, "the schedule is there", func() bool { return db.Do("ZCARD", "delayer:job_pool") == int64(1) })
	for n := range 3 {
		check(t, syscall.Kill(pid, syscall.SIGUSR2))
		eventually(t, "it is reloaded", func() bool {
			return strings.Count(read(t, s.access), "Configuration reloaded: schedules, token, users and limits of dead letters are in force\n") == n+1 || read(t, s.errors) != ""
		})
	}
	if got := read(t, s.errors); got != "" {
		t.Errorf("the error log has %s", got)
	}
	check(t, os.Rename(s.conf, s.conf+".gone"))
	check(t, syscall.Kill(pid, syscall.SIGUSR2))
	eventually(t, "the missing file is logged", func() bool { return strings.Contains(read(t, s.errors), s.conf) })
	if n := db.Do("ZCARD", "delayer:job_pool"); n != int64(1) {
		t.Errorf("there are %v schedules", n)
	}
}
