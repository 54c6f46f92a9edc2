//go:build !windows

package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

const (
	started = "Service started successfully, PID: "
	stopped = "Service stopped successfully, PID: "
)

const bannerStart = "    ____       __\n" +

	"   / __ \\___  / /___ ___  _____  _____\n" +
	"  / / / / _ \\/ / __ `/ / / / _ \\/ ___/\n" +
	" / /_/ /  __/ / /_/ / /_/ /  __/ /\n" +
	"/_____/\\___/_/\\__,_/\\__, /\\___/_/\n" +
	"                   /____/\n" +
	"Service:\t\tdelayer\n" +
	"Version:\t\t1.2.0-dev\n"

// infoLine matches one line of the access log.
func infoLine(message string) string {
	return `\[info\] \d{4}/\d\d/\d\d \d\d:\d\d:\d\d ` + regexp.QuoteMeta(message) + `\n`
}

func matches(tb testing.TB, name, got, pattern string) {
	tb.Helper()
	if !regexp.MustCompile(`\A(?s:` + pattern + `)\z`).MatchString(got) {
		tb.Errorf("%s is %q, want %s", name, got, pattern)
	}
}

// signal sends a signal to a program that the test started.
func (p *process) signal(s syscall.Signal) {
	p.tb.Helper()
	check(p.tb, p.cmd.Process.Signal(s))
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// putDue stores job 1 with the given due time in the past.
func putDue(db *redistest.Fixture, since int64) {
	db.Do("HSET", "delayer:job_bucket:1", "topic", "t", "body", "b")
	db.Do("ZADD", "delayer:job_pool", since, "1")
}

// delivers waits for a daemon to make a job ready.
func (p *process) delivers(db *redistest.Fixture) {
	p.tb.Helper()
	putDue(db, 1)
	p.expect(p.stdout, "Job is ready, Topic: t, IDs: [1]")
}

// A daemon starts and stops in the foreground and in the background alike, except that -d returns once the
// daemon is ready. A relative path counts from the starting folder, although the daemon leaves it.
func TestStartAndStop(t *testing.T) {
	redisServer := redistest.Start(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP} {
		for _, mode := range modes {
			t.Run(signal.String()+strings.Join(mode, ""), func(t *testing.T) {
				t.Parallel()
				s := newSite(t, redisServer.Addr)
				conf := filepath.Join(filepath.Base(s.dir), "delayer.conf")
				p := startBinary(t, filepath.Dir(s.dir), environment(t), append(mode, "-c", conf)...)
				p.expect(p.stdout, started)
				pid, inBackground := read(t, s.pid), len(mode) > 0
				if inBackground {
					p.ends(0)
					detached(t, pid)
				}
				if (pid == strconv.Itoa(p.pid())) == inBackground {
					t.Errorf("daemon's PID %s, command's PID %d", pid, p.pid())
				}
				stopDaemon(t, s, signal)
				p.ends(0)
				said, lines := infoLine(started+pid), infoLine(started+pid)+infoLine(stopped+pid)
				if !inBackground {
					said = lines
				}
				matches(t, "stdout", p.stdout.String(), regexp.QuoteMeta(bannerStart)+said)
				matches(t, "stderr", p.stderr.String(), "")
				matches(t, "access log", read(t, s.access), lines)
				matches(t, "error log", read(t, s.errors), "")
			})
		}
	}
}

// The start warns in the error log that Redis evicts keys when it is full, and works nevertheless.
func TestStartWithEviction(t *testing.T) {
	t.Parallel()
	redisServer := redistest.Start(t, "--maxmemory-policy", "volatile-lru")
	s := newSite(t, redisServer.Addr)
	p := s.started(t)
	p.delivers(redisServer.Fixture)
	if want := "redis on " + redisServer.Addr + ": redis evicts jobs when it is full: its maxmemory-policy is volatile-lru, want noeviction\n"; strings.Count(read(t, s.errors), want) != 1 {
		t.Errorf("error log %q, want one line with %q", read(t, s.errors), want)
	}
}

// If Redis is down or silent at the start, the daemon waits for it, and the start's line mentions
// that.
func TestStartWithoutRedis(t *testing.T) {
	away, mute := redistest.Nobody(t), newMute(t).addr
	for _, test := range []struct{ name, addr, why string }{
		{"away", away, `dial tcp ` + away + `: connect: connection refused`},
		{"mute", mute, `[^\n]*timeout`},
	} {
		for _, mode := range modes {
			t.Run(test.name+strings.Join(mode, ""), func(t *testing.T) {
				if test.name == "mute" {
					redistest.Long(t) // the start waits for 5 s
				}
				t.Parallel()
				s := newSite(t, test.addr, "read_timeout = 100")
				p := s.started(t, mode...)
				line := regexp.MustCompile(started + `\d+; Redis has not responded yet: ` + test.why + `\n`)
				if !line.MatchString(p.stdout.String()) || !line.MatchString(read(t, s.access)) {
					t.Errorf("want %s in\n%s", line, p.stdout)
				}
				stopDaemon(t, s, syscall.SIGTERM)
				p.ends(0)
			})
		}
	}
}

// The daemon also waits for a Redis that answers but can't serve yet.
func TestStartOnAReplica(t *testing.T) {
	t.Parallel()
	redisServer := redistest.Start(t)
	redisServer.Do("REPLICAOF", "127.0.0.1", "1")
	s := newSite(t, redisServer.Addr)
	p := s.started(t)
	if want := fmt.Sprintf("%s%d; Redis does not serve it yet: ", started, p.pid()); !strings.Contains(p.stdout.String(), want) || !strings.Contains(p.stdout.String(), "READONLY") {
		t.Errorf("want %q and READONLY in\n%s", want, p.stdout)
	}
	redisServer.Do("REPLICAOF", "NO", "ONE")
	p.delivers(redisServer.Fixture)
}

// A daemon configured by the environment needs no file. JSON on stdout contains no banner.
func TestConfigurationInTheEnvironment(t *testing.T) {
	t.Parallel()
	redisServer := redistest.Start(t)
	for _, mode := range modes {
		s := newSite(t, redisServer.Addr)
		os.Remove(s.conf)
		_, port, _ := net.SplitHostPort(redisServer.Addr)
		env := environment(t, "DELAYER_REDIS_PORT="+port, "DELAYER_PID="+s.pid, "DELAYER_ACCESS_LOG="+s.access,
			"DELAYER_ERROR_LOG="+s.errors, "DELAYER_LOG_FORMAT=json", "DELAYER_TIMERINTERVAL=1", "DELAYER_JOB_ID=7")
		p := startBinary(t, s.dir, env, mode...)
		p.expect(p.stdout, started)
		eventually(t, "both logs are written", func() bool {
			return exists(s.access) && strings.HasPrefix(read(t, s.access), `{"time":`) && strings.Contains(read(t, s.access), started) &&
				strings.Contains(read(t, s.errors), "warning: DELAYER_TIMERINTERVAL: unknown variable, did you mean DELAYER_TIMER_INTERVAL?")
		})
		if got := p.stdout.String() + read(t, s.errors) + p.stderr.String(); len(mode) == 0 && !strings.HasPrefix(got, `{"time":`) || strings.Contains(got, "DELAYER_JOB_ID") {
			t.Errorf("%v says %s", mode, got)
		}
		stopDaemon(t, s, syscall.SIGTERM)
	}
}

// A configuration without a file is printed, too.
func TestEnvironmentIsNamed(t *testing.T) {
	t.Parallel()
	r := runBinary(t, t.TempDir(), environment(t, "DELAYER_REDIS_HOST=h", "DELAYER_PID=", "DELAYER_ACCESS_LOG=", "DELAYER_ERROR_LOG="), "--check-config")
	if want := (result{stdout: "the environment: the configuration is good\n"}); r != want {
		t.Errorf("%+v, want %+v", r, want)
	}
}

// modes are the ways to start the daemon. They look the same to the starter.
var modes = [][]string{{}, {"-d"}}

// A failing start prints one line per reason on stderr, and leaves nothing new behind.
func TestFailingStart(t *testing.T) {
	withPassword := redistest.Start(t, "--requirepass", "right")
	for _, test := range []struct {
		name   string
		change func(tb testing.TB, s *site)
		stderr string // pattern; SITE stands for the site's folder
		code   int
		logs   bool // the logs have been opened
	}{
		{"bad configuration", func(tb testing.TB, s *site) {
			s.change(tb, "timer_interval = 10", "timer_interval = 0\nmax_idle = 1")
		}, `SITE/delayer.conf:3: [^\n]*timer_interval[^\n]*\nSITE/delayer.conf:4: [^\n]*max_idle[^\n]*\n`, exit.Usage, false},
		{"missing configuration", func(tb testing.TB, s *site) {
			s.conf = filepath.Join(s.dir, "other.conf")
		}, `ERROR: configuration: open SITE/other.conf: no such file or directory\n`, exit.Usage, false},
		{"bad certificate", func(tb testing.TB, s *site) {
			s.change(tb, "[redis]", "[redis]\ntls = true\ntls_ca = "+s.conf)
		}, `ERROR: redis.tls_ca: SITE/delayer.conf: [^\n]*PEM[^\n]*\n`, exit.Usage, false},
		{"no folder for the pid file", func(tb testing.TB, s *site) {
			s.change(tb, s.pid, filepath.Join(s.conf, "delayer.pid"))
		}, `ERROR: delayer.pid: [^\n]*SITE/delayer.conf[^\n]*\n`, exit.Usage, false},
		{"no folder for the access log", func(tb testing.TB, s *site) {
			s.change(tb, s.access, filepath.Join(s.conf, "access.log"))
		}, `ERROR: [^\n]*access[^\n]*SITE/delayer.conf[^\n]*\n`, exit.Usage, false},
		{"no folder for the error log", func(tb testing.TB, s *site) {
			s.change(tb, s.errors, filepath.Join(s.conf, "error.log"))
		}, `ERROR: [^\n]*error[^\n]*SITE/delayer.conf[^\n]*\n`, exit.Usage, false},
		{"wrong password", func(tb testing.TB, s *site) {
			s.change(tb, "[redis]", "[redis]\npassword = wrong")
		}, `ERROR: redis on 127\.0\.0\.1:\d+: [^\n]*WRONGPASS[^\n]*\n`, exit.Redis, true},
		{"no password", func(tb testing.TB, s *site) {
		}, `ERROR: redis on 127\.0\.0\.1:\d+: [^\n]*NOAUTH[^\n]*\n`, exit.Redis, true},
	} {
		for _, mode := range modes {
			t.Run(test.name+strings.Join(mode, ""), func(t *testing.T) {
				t.Parallel()
				s := newSite(t, withPassword.Addr)
				test.change(t, &s)
				r := runBinary(t, t.TempDir(), environment(t), append(mode, "-c", s.conf)...)
				matches(t, "stderr", r.stderr, strings.ReplaceAll(test.stderr, "SITE", regexp.QuoteMeta(s.dir)))
				if r.stdout != "" || r.code != test.code {
					t.Errorf("exit code %d, stdout %q", r.code, r.stdout)
				}
				if exists(s.pid) {
					t.Error("a pid file is left")
				}
				if !test.logs {
					return
				}
				if log, said := read(t, s.errors), strings.TrimPrefix(r.stderr, "ERROR: "); !strings.HasSuffix(log, said) {
					t.Errorf("error log %q, stderr %q", log, r.stderr)
				}
			})
		}
	}
}

// Of several simultaneous starts, after a crash, one wins, and the others report its ID.
func TestRacingStarts(t *testing.T) {
	for _, mode := range modes {
		t.Run("mode"+strings.Join(mode, ""), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, redistest.Nobody(t))
			for range 4 {
				write(t, s.pid, "99999999")
				racers := []*process{s.start(t, mode...), s.start(t, mode...), s.start(t, mode...)}
				var winner *process
				for _, p := range racers {
					won, pid := p.says(p.stdout, started), read(t, s.pid)
					switch {
					case won && winner == nil && strings.Contains(p.stdout.String(), started+pid):
						winner = p
					case won || p.wait() != exit.Running || p.stderr.String() != "ERROR: Service is being executed, PID: "+pid+"\n":
						t.Errorf("PID %s, a loser: %v, %s%s", pid, p.cmd.ProcessState, p.stdout, p.stderr)
					}
				}
				if winner == nil {
					t.Fatal("nobody won")
				}
				stopDaemon(t, s, syscall.SIGTERM)
				winner.ends(0)
			}
		})
	}
}

// rotate rotates the logs like logrotate.
func rotate(tb testing.TB, s site, pid int) {
	tb.Helper()
	for _, log := range []string{s.access, s.errors} {
		check(tb, os.Rename(log, log+".1"))
	}
	check(tb, syscall.Kill(pid, syscall.SIGUSR1))
	eventually(tb, "the logs are there again", func() bool { return exists(s.access) && exists(s.errors) })
}

// A failed rotation is reported and stops nothing.
func TestFailingRotation(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Nobody(t))
	p := s.started(t)
	old := filepath.Dir(s.access) + ".1"
	check(t, os.Rename(filepath.Dir(s.access), old))
	write(t, filepath.Dir(s.access), "no folder any more")
	p.signal(syscall.SIGUSR1)
	p.expect(p.stdout, "Logs could not be reopened: ")
	if got := read(t, filepath.Join(old, "error.log")); !strings.Contains(got, "Logs could not be reopened: ") {
		t.Errorf("error log: %q", got)
	}
	p.stopped()
}

// stopDaemon stops the daemon named in the site's pid file, and waits until it has removed the
// file.
func stopDaemon(tb testing.TB, s site, signal syscall.Signal) {
	tb.Helper()
	pid, err := strconv.Atoi(read(tb, s.pid))
	check(tb, err)
	check(tb, syscall.Kill(pid, signal))
	eventually(tb, "the pid file is gone", func() bool { return !exists(s.pid) })
}
