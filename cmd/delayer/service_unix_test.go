//go:build !windows

package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// systemd is a socket that receives the status of a service.
type systemd struct {
	tb   testing.TB
	path string
	conn *net.UnixConn
}

func startSystemd(tb testing.TB) systemd {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	check(tb, err)
	tb.Cleanup(func() { conn.Close() })
	return systemd{tb, path, conn}
}

func (s systemd) environment() []string {
	return environment(s.tb, "NOTIFY_SOCKET="+s.path, "WATCHDOG_USEC=400000")
}

// hears waits for a message that contains all words, and returns the earlier messages.
func (s systemd) hears(words ...string) (before string) {
	s.tb.Helper()
	buffer := make([]byte, 4096)
	for {
		s.conn.SetReadDeadline(time.Now().Add(patience))
		n, err := s.conn.Read(buffer)
		if err != nil {
			s.tb.Fatalf("no message with %q: %v; before: %s", words, err, before)
		}
		message := string(buffer[:n])
		missing := false
		for _, word := range words {
			missing = missing || !strings.Contains(message, word)
		}
		if !missing {
			return before
		}
		before += message + "\n"
	}
}

// The service reports to systemd when it is ready, its status, and when it stops. It feeds the watchdog even while
// Redis hangs.
func TestNotify(t *testing.T) {
	redistest.Long(t)
	db, manager := redistest.Start(t), startSystemd(t)
	s := newSite(t, db.Addr, "connect_timeout = 200", "read_timeout = 200", "write_timeout = 200")
	p := startBinary(t, s.dir, manager.environment(), "-c", s.conf)
	manager.hears("READY=1", "STATUS=0 jobs delivered")
	p.delivers(db.Fixture)
	manager.hears("STATUS=1 jobs delivered, 0.")
	manager.hears("WATCHDOG=1")
	db.Hang()
	manager.hears("STATUS=waiting for Redis: ")
	for range 5 {
		manager.hears("WATCHDOG=1")
	}
	db.Continue()
	manager.hears("STATUS=1 jobs delivered, 0.0 a second")
	p.signal(syscall.SIGTERM)
	manager.hears("STOPPING=1")
	p.ends(0)
}

// A service is ready even if Redis is down: it waits by itself.
func TestNotifyWithoutRedis(t *testing.T) {
	for name, lines := range map[string]string{"single": "", "cluster": "cluster = 127.0.0.1:1\npartitions = 2"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manager := startSystemd(t)
			s := newSite(t, "127.0.0.1:1", lines)
			if lines != "" {
				s.change(t, "host = 127.0.0.1\nport = 1\n", "")
			}
			p := startBinary(t, s.dir, manager.environment(), "-c", s.conf)
			if before := manager.hears("STATUS=waiting for Redis: ", "READY=1"); strings.Contains(before, "READY") {
				t.Errorf("ready before: %s", before)
			}
			manager.hears("WATCHDOG=1")
			p.stopped()
		})
	}
}

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
