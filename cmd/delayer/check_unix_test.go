//go:build !windows

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// files returns everything in a folder, with the contents of files and the targets of links.
func files(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	found := map[string]string{}
	err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		found[path] = info.Mode().String() + " " + info.ModTime().String()
		if info.Mode().IsRegular() {
			found[path] += read(tb, path)
		}
		return nil
	})
	check(tb, err)
	return found
}

// --check-config finds everything that would keep the daemon from starting, all at once, and changes
// nothing.
func TestCheckConfigTriesThePaths(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer taken.Close()
	const good = "SITE/delayer.conf: the configuration is good\n"
	for _, test := range []struct {
		name           string
		change         func(s site)
		stdout, stderr string // SITE stands for the site's folder
	}{
		{"nothing there yet", func(site) {}, good, ""},
		{"all there already", func(s site) {
			write(t, s.pid, "99999999")
			write(t, s.access, "a\n")
			write(t, s.errors, "e\n")
		}, good, ""},
		{"no paths", func(s site) {
			s.change(t, s.pid, "")
			s.change(t, s.access, "")
			s.change(t, s.errors, "")
		}, good, ""},
		{"files in the way of folders", func(s site) {
			write(t, filepath.Dir(s.pid), "")
			write(t, filepath.Dir(s.access), "")
		}, "", "ERROR: delayer.pid: open SITE/run/delayer.pid: not a directory\n" +
			"ERROR: delayer.access_log: stat SITE/logs/access.log: not a directory\n" +
			"ERROR: delayer.error_log: stat SITE/logs/error.log: not a directory\n"},
		{"folders in the way of files", func(s site) {
			os.MkdirAll(s.pid, 0o755)
			os.MkdirAll(s.access, 0o755)
		}, "", "ERROR: delayer.pid: open SITE/run/delayer.pid: is a directory\n" +
			"ERROR: delayer.access_log: open SITE/logs/access.log: is a directory\n"},
		{"a pid file that is another's", func(s site) {
			write(t, s.pid, "precious")
		}, "", "ERROR: delayer.pid: SITE/run/delayer.pid holds something else than a process ID: want the path of a file of its own, or nothing\n"},
		{"an address that is in use", func(s site) {
			s.change(t, "[redis]", "[http]\nlisten = "+taken.Addr().String()+"\n[redis]")
		}, "Note: http.listen = " + taken.Addr().String() + ": bind: address already in use\n" + good, ""},
		{"an address of elsewhere", func(s site) {
			s.change(t, "[redis]", "[http]\nlisten = 203.0.113.1:80\ninsecure = true\n[redis]")
		}, "", "ERROR: http.listen = 203.0.113.1:80: bind: cannot assign requested address\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newSite(t, redistest.Nobody(t))
			test.change(s)
			before := files(t, s.dir)
			r := runBinary(t, s.dir, environment(t), "--check-config", "-c", s.conf)
			want := result{strings.ReplaceAll(test.stdout, "SITE", s.dir), strings.ReplaceAll(test.stderr, "SITE", s.dir), 0}
			if test.stderr != "" {
				want.code = exit.Usage
			}
			if r != want {
				t.Errorf("got %+v\nwant %+v", r, want)
			}
			if after := files(t, s.dir); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("%v became %v", before, after)
			}
		})
	}
}

// --check-config accepts the configuration of a running service.
func TestCheckConfigBesideARunningService(t *testing.T) {
	t.Parallel()
	redisServer := redistest.Start(t)
	s := newSite(t, redisServer.Addr, "[http]", "listen = "+redistest.Nobody(t))
	p := s.started(t)
	r := runBinary(t, s.dir, environment(t), "--check-config", "-c", s.conf)
	if want := (result{fmt.Sprintf("Note: the service is running, PID: %d\n%s: the configuration is good\n", p.pid(), s.conf), "", 0}); r != want {
		t.Errorf("%+v, want %+v", r, want)
	}
	if got := read(t, s.pid); got != strconv.Itoa(p.pid()) {
		t.Errorf("pid file %q", got)
	}
}

// A user without the permissions of every server and worker gets an error and no retry, whatever the wording with which this
// Redis refuses a script.
func TestScriptsRefused(t *testing.T) {
	t.Parallel()
	redisServer := redistest.Start(t)
	redisServer.Do("LPUSH", "delayer:ready_queue:t", "an ID")
	for user, rights := range map[string]string{"clockless": "~* &* +@all -time", "poolless": "~* &* +@all -zadd", "keyless": "~delayer:none &* +@all"} {
		redisServer.Do("ACL", redis.Args{"SETUSER", user, "on", ">pass"}.AddFlat(strings.Fields(rights))...)
		s := newSite(t, redisServer.Addr, "username = "+user+"\npassword = pass")
		for name, args := range map[string][]string{"daemon": nil, "worker": {"worker", "--topic", "t", "cat"}, "push": {"push", "t", "1h", "b"}} {
			t.Run(user+" "+name, func(t *testing.T) {
				t.Parallel()
				if r := runBinary(t, s.dir, environment(t), append([]string{"-c", s.conf}, args...)...); r.code != exit.Redis || !strings.Contains(r.stderr, "ERROR: ") {
					t.Errorf("%+v, want exit code %d", r, exit.Redis)
				}
			})
		}
	}
}

// The file's warnings are printed although something else is wrong, which they may explain.
func TestCheckWarnsBesideAnError(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Nobody(t), "passwd = secret")
	write(t, filepath.Dir(s.pid), "")
	r := runBinary(t, s.dir, environment(t), "--check-config", "-c", s.conf)
	if r.code == 0 || !strings.Contains(r.stderr, "not a directory") || !strings.Contains(r.stdout, "did you mean password?") {
		t.Errorf("%+v", r)
	}
}
