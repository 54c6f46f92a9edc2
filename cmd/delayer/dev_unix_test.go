//go:build !windows

package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// --dev is a daemon with its own Redis at the configured address.
func TestDev(t *testing.T) {
	t.Parallel()
	s, home := newSite(t, redistest.Nobody(t)), t.TempDir()
	p := startBinary(t, s.dir, append(environment(t), "HOME="+home), "--dev", "-c", s.conf)
	p.expect(p.stdout, started)
	_, rest, _ := strings.Cut(read(t, s.conf), "\nport = ")
	port, _, _ := strings.Cut(rest, "\n")
	addr := "127.0.0.1:" + port
	matches(t, "stdout", p.stdout.String(), regexp.QuoteMeta(bannerStart+
		"In-memory Redis on "+addr+": nothing is kept.\n"+
		"Try: delayer -c '"+s.conf+"' --redis redis://"+addr+" push greetings 5 hello\n")+
		`HTTP server:\t(http://127\.0\.0\.1:\d+)/\n\[info\] [^\n]*\n`)
	if status, body := get(t, http.DefaultClient, urlOf(p)+"/healthz"); status != http.StatusOK {
		t.Errorf("/healthz: %d %s", status, body)
	}

	db := redistest.On(t, addr)
	p.delivers(db)
	if got := db.Do("BLMOVE", "delayer:ready_queue:t", "delayer:ready_queue:t", "RIGHT", "RIGHT", 1); string(got.([]byte)) != "1" {
		t.Errorf("BLMOVE: %q", got)
	}

	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 || !strings.Contains(p.stdout.String(), stopped) || p.stderr.String() != "" {
		t.Errorf("exit code %d\n%s%s", code, p.stdout, p.stderr)
	}
	for _, dir := range []string{s.dir, home} {
		if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 1 || len(left) == 1 && left[0] != s.conf {
			t.Errorf("made files: %v", left)
		}
	}
}

// If the address is in use, --dev takes another port. The last line says so, and which URL to use.
func TestDevOnTakenAddress(t *testing.T) {
	t.Parallel()
	mute := newMute(t)
	_, port, _ := net.SplitHostPort(mute.addr)
	dir := t.TempDir()
	p := startBinary(t, dir, environment(t, "DELAYER_REDIS_PORT="+port), "--dev")
	p.expect(p.stdout, started)
	found := regexp.MustCompile(`(?m)^In-memory Redis on 127\.0\.0\.1:(\d+): nothing is kept\.\nTry: delayer --redis redis://127\.0\.0\.1:(\d+) push greetings 5 hello$`).FindStringSubmatch(p.stdout.String())
	if found == nil || found[1] != found[2] || found[1] == port {
		t.Fatalf("%v", p.stdout)
	}
	redistest.On(t, "127.0.0.1:"+found[1]).Do("PING")
	want := fmt.Sprintf("Use redis://127.0.0.1:%s in your programs: this Delayer does not use the Redis on %s\n", found[1], mute.addr)
	p.expect(p.stdout, want)
	if !strings.HasSuffix(p.stdout.String(), want) {
		t.Errorf("the last line is not %q:\n%v", want, p.stdout)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("made %v", left)
	}
}

// The configured credentials apply to the in-memory Redis.
func TestDevLogin(t *testing.T) {
	t.Parallel()
	addr := redistest.Nobody(t)
	p := newSite(t, addr, "username = delayer", "password = secret", "database = 3").started(t, "--dev")
	db := redistest.On(t, addr)
	if _, err := db.Conn().Do("GET", "key"); err == nil || !strings.Contains(err.Error(), "NOAUTH") {
		t.Errorf("without a password: %v", err)
	}
	db.Do("AUTH", "delayer", "secret")
	db.Do("SELECT", 3)
	p.delivers(db)
}

// --dev does not use the configured sentinels or cluster, nor does the line to try. Its own Redis has several partitions if
// configured.
func TestDevLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	elsewhere := redistest.Start(t)
	for name, c := range map[string]struct {
		lines  []string
		note   string // a regular expression
		bucket string // of job a
	}{
		"sentinels": {
			[]string{"sentinel_master = m", "sentinel_username = u", "sentinel_password = p", "sentinels = " + redistest.StartSentinel(t, elsewhere, 1).Addr},
			`Note: --dev asks no sentinels\.\n`, "delayer:job_bucket:a",
		},
		"a cluster":       {[]string{"partitions = 4", "cluster = " + elsewhere.Addr}, `Note: --dev asks no cluster\.\n`, "delayer:{3}:job_bucket:a"},
		"five partitions": {[]string{"partitions = 5"}, "", "delayer:{4}:job_bucket:a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, redistest.Nobody(t), c.lines...)
			p := s.started(t, "--dev")
			found := regexp.MustCompile(`(?m)^` + c.note + `In-memory Redis on (.*): nothing is kept\.\nTry: delayer -c '.*' --redis (.*) push greetings 5 hello$`).FindStringSubmatch(p.stdout.String())
			if found == nil {
				t.Fatalf("%v", p.stdout)
			}
			push := func(id, delay string) {
				t.Helper()
				if r := runBinary(t, s.dir, environment(t), "-c", s.conf, "--redis", found[2], "push", "greetings", delay, "hello", "--id", id); r != (result{stdout: id + "\n"}) {
					t.Errorf("push of %s: %+v", id, r)
				}
			}
			push("a", "60")
			if n := redistest.On(t, found[1]).Do("EXISTS", c.bucket); n != int64(1) {
				t.Errorf("the in-memory Redis has it: %v", n)
			}
			push("b", "50ms")
			if r := runBinary(t, s.dir, environment(t), "-c", s.conf, "--redis", found[2], "bpop", "greetings", "2m"); r != (result{stdout: "hello\n"}) {
				t.Errorf("%+v", r)
			}
			if keys := elsewhere.Strings("KEYS", "*"); len(keys) > 0 {
				t.Errorf("the Redis elsewhere has %q", keys)
			}
		})
	}
}

func TestDevWithTLS(t *testing.T) {
	s := newSite(t, redistest.Nobody(t), "tls = true")
	r := runBinary(t, s.dir, environment(t), "--dev", "-c", s.conf)
	if r != (result{stderr: "ERROR: --dev: the in-memory Redis has no TLS: set redis.tls = false\n", code: 2}) {
		t.Errorf("%+v", r)
	}
}
