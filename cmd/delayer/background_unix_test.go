//go:build !windows

package main

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"golang.org/x/sys/unix"
)

// detached checks, where the system shows it, that the daemon has kept nothing of its starter.
func detached(tb testing.TB, pid string) {
	if !exists("/proc/self/fd/1") {
		return
	}
	for link, want := range map[string]string{"cwd": "/", "fd/0": os.DevNull, "fd/1": os.DevNull, "fd/2": os.DevNull} {
		eventually(tb, link+" of the daemon is "+want, func() bool {
			got, err := os.Readlink(filepath.Join("/proc", pid, link))
			return err == nil && got == want
		})
	}
}

// Relative paths in a file that was searched for, which is printed, count from the starting folder too, even for logs
// that are reopened much later.
func TestBackgroundWithRelativePaths(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Nobody(t))
	s.change(t, s.dir, ".")
	s.change(t, s.dir, ".")
	s.change(t, s.dir, ".")
	if r := runBinary(t, s.dir, environment(t), "--daemon"); r.code != 0 || !strings.HasPrefix(r.stdout, bannerStart+"Configuration:\tdelayer.conf\n[info] ") {
		t.Fatalf("%+v", r)
	}
	pid, _ := strconv.Atoi(read(t, s.pid))
	rotate(t, s, pid)
	stopDaemon(t, s, syscall.SIGTERM)
	matches(t, "access log", read(t, s.access), infoLine(stopped+strconv.Itoa(pid)))
}

// A daemon in the background uses the Redis of --redis, which ps does not show.
func TestBackgroundWithURL(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Nobody(t))
	db := redistest.Start(t)
	if r := runBinary(t, s.dir, environment(t), "-d", "-c", s.conf, "--redis", "redis://"+db.Addr); r.code != 0 || strings.Contains(r.stdout, "Redis has not responded yet") {
		t.Fatalf("%+v", r)
	}
	if line, err := os.ReadFile("/proc/" + read(t, s.pid) + "/cmdline"); err == nil && strings.Contains(string(line), db.Addr) {
		t.Errorf("ps shows %q", line)
	}
	stopDaemon(t, s, syscall.SIGTERM)
}

// Ctrl-C while the daemon starts and Redis does not respond leaves no daemon behind.
func TestInterruptedBackground(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			mute := newMute(t)
			s := newSite(t, mute.addr)
			p := s.start(t, "-d")
			mute.waitForConnection()
			p.signal(signal)
			code := p.wait()
			if code != exit.Interrupted || p.stdout.String() != "" || p.stderr.String() != "ERROR: interrupted: the service is stopped again\n" {
				t.Errorf("exit code %d, stdout %q, stderr %q", code, p.stdout, p.stderr)
			}
			if exists(s.pid) {
				t.Error("the pid file is left")
			}
		})
	}
}

// A daemon whose starter was killed can't report its start, and exits.
func TestBackgroundWithoutParent(t *testing.T) {
	t.Parallel()
	mute := newMute(t)
	s := newSite(t, mute.addr)
	p := s.start(t, "-d")
	mute.waitForConnection()
	p.signal(syscall.SIGKILL)
	p.wait()
	close(mute.hangUp)
	eventually(t, "the daemon has ended", func() bool { return !exists(s.pid) })
	if log := read(t, s.errors); !strings.Contains(log, "the process that started the service has gone") {
		t.Errorf("error log: %q", log)
	}
}

// The trace of a crash without a console is in the error log, also after a rotation.
func TestCrashTrace(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.Nobody(t))
	if r := runBinary(t, s.dir, environment(t), "-d", "-c", s.conf); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	pid, _ := strconv.Atoi(read(t, s.pid))
	rotate(t, s, pid)
	// The log exists briefly before traces are redirected to it.
	eventually(t, "traces are led to the new log", func() bool { return !exists("/proc/self/fd/1") || timesOpen(pid, s.errors) == 2 })
	syscall.Kill(pid, syscall.SIGABRT)
	eventually(t, "the trace is in the error log", func() bool {
		return strings.Contains(read(t, s.errors)+read(t, s.errors+".1"), "SIGABRT")
	})
}

// timesOpen counts a process's open descriptors of the file. It works on Linux.
func timesOpen(pid int, path string) (n int) {
	links, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && target == path {
			n++
		}
	}
	return n
}

// The original takes no lock: its ID in the file keeps a second instance out while it runs. A dead
// process does not, even if it was not reaped yet, nor does another program that was given the ID of a
// crashed instance.
func TestPIDFileWithoutLock(t *testing.T) {
	s := newSite(t, redistest.Nobody(t))
	s.change(t, "pid = "+s.pid, "pid =")
	original := s.started(t)
	other := exec.Command("sleep", "600")
	check(t, other.Start())
	defer other.Wait()
	defer other.Process.Kill()

	next := newSite(t, redistest.Nobody(t))
	zombie := exec.Command(binary, "-c", s.conf)
	check(t, zombie.Start())
	defer zombie.Wait()
	zombie.Process.Kill()
	write(t, next.pid, strconv.Itoa(zombie.Process.Pid))
	eventually(t, "a dead process does not count", func() bool {
		p := next.start(t)
		if !p.says(p.stdout, started) {
			return false
		}
		p.stopped()
		return true
	})
	for pid, running := range map[int]bool{original.pid(): true, other.Process.Pid: false} {
		write(t, next.pid, strconv.Itoa(pid))
		p := next.start(t)
		if running {
			p.ends(exit.Running)
			if want := fmt.Sprintf("ERROR: Service is being executed, PID: %d\n", pid); p.stderr.String() != want {
				t.Errorf("it says %q, want %q", p.stderr, want)
			}
		} else {
			p.expect(p.stdout, started)
			p.stopped()
		}
		if exists(next.pid) != running || running && read(t, next.pid) != strconv.Itoa(pid) {
			t.Errorf("%d: the file has been changed", pid)
		}
	}
}

// ordinary is a user other than root, with a home and the shipped delayer.conf.
type ordinary struct {
	tb               testing.TB
	id               int
	home, conf, work string // work is the user's working folder
	program          string
}

// nobodyID is an ordinary user on all systems. Root runs programs as this user.
const nobodyID = 65534

func newOrdinary(tb testing.TB) ordinary {
	tb.Helper()
	u := ordinary{tb: tb, id: os.Geteuid(), program: binary}
	dir := tb.TempDir()
	u.home, u.work, u.conf = filepath.Join(dir, "home"), filepath.Join(dir, "work"), filepath.Join(dir, "delayer.conf")
	write(tb, u.conf, packaged(tb, "delayer.conf"))
	for _, folder := range []string{u.home, u.work} {
		check(tb, os.Mkdir(folder, 0o755))
	}
	if u.id == 0 {
		u.id = nobodyID
		os.Chown(u.home, u.id, u.id)
		os.Chown(u.work, u.id, u.id)
		u.program = filepath.Join(dir, "delayer") // the original file may be in a folder of root's
		check(tb, os.WriteFile(u.program, []byte(read(tb, binary)), 0o755))
		for ; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
			os.Chmod(dir, 0o755)
		}
	}
	return u
}

// start runs the program as the user, with the shipped delayer.conf and no Redis.
func (u ordinary) start(dir string, variables []string, args ...string) *process {
	u.tb.Helper()
	cmd := exec.Command(u.program, append([]string{"-c", u.conf}, args...)...)
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(u.id), Gid: uint32(u.id)}}
	}
	env := slices.DeleteFunc(environment(u.tb), func(variable string) bool { return strings.HasPrefix(variable, "HOME=") })
	return startCommand(u.tb, dir, append(env, append([]string{"DELAYER_REDIS_PORT=1"}, variables...)...), cmd)
}

// notedPath is the note of a path in whose place the shipped one in the folder can't be written.
func notedPath(name, path, folder string) string {
	if path == folder+"/logs/access.log" || path == folder+"/logs/error.log" { // a shipped one
		return ""
	}
	return fmt.Sprintf("%s%s (write %s: permission denied)\n", name, cmp.Or(path, "none"), folder)
}

// The shipped delayer.conf works for an ordinary user from any folder. Paths that can't be written
// are replaced by the user's own, with a note. --check-config prints the same and creates nothing.
func TestShippedConfigurationForAnOrdinaryUser(t *testing.T) {
	if path := config.Default().Delayer.PID; os.Geteuid() > 0 && unix.Access(filepath.Dir(path), unix.W_OK) == nil {
		t.Skip("this user may write " + path)
	}
	u := newOrdinary(t)
	state, run := filepath.Join(u.home, ".local", "state", "delayer"), filepath.Join(u.home, "run")
	for _, test := range []struct {
		name, dir             string
		variables             []string
		pid, access, errorLog string // "": none
	}{
		{"from the root folder", "/", []string{"HOME=" + u.home},
			state + "/delayer.pid", state + "/access.log", state + "/error.log"},
		{"from a folder of theirs", u.work, []string{"HOME=" + u.home},
			state + "/delayer.pid", u.work + "/logs/access.log", u.work + "/logs/error.log"},
		{"with folders of the session", "/", []string{"HOME=" + u.home, "XDG_RUNTIME_DIR=" + run, "XDG_STATE_HOME=" + u.home + "/state"},
			run + "/delayer.pid", u.home + "/state/delayer/access.log", u.home + "/state/delayer/error.log"},
		{"with folders of systemd", "/", []string{"HOME=/nowhere", "RUNTIME_DIRECTORY=" + run, "LOGS_DIRECTORY=" + u.home + "/log:/elsewhere"},
			run + "/delayer.pid", u.home + "/log/access.log", u.home + "/log/error.log"},
		{"without a home", "/", []string{"HOME=/proc"}, "", "", ""},
		{"with folders that are not absolute", "/", []string{"HOME=here", "XDG_RUNTIME_DIR=.", "XDG_STATE_HOME=state", "LOGS_DIRECTORY=x"}, "", "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			u.tb = t
			notes := notedPath("PID file:\t", test.pid, "/var/run") + notedPath("Access log:\t", test.access, test.dir) + notedPath("Error log:\t", test.errorLog, test.dir)
			before := files(t, u.home)
			check := u.start(test.dir, test.variables, "--check-config")
			if code := check.wait(); code != 0 || check.stdout.String() != notes+u.conf+": the configuration is good\n" || check.stderr.String() != "" {
				t.Errorf("--check-config: %d, %s%s, want %s", code, check.stdout, check.stderr, notes)
			}
			if after := files(t, u.home); fmt.Sprint(after) != fmt.Sprint(before) {
				t.Errorf("--check-config: %v became %v", before, after)
			}
			p := u.start(test.dir, test.variables)
			p.expect(p.stdout, started)
			if !strings.Contains(p.stdout.String(), "Version:\t\t1.2.0-dev\n"+notes+"[info] ") {
				t.Errorf("%s, want %s", p.stdout, notes)
			}
			if test.pid != "" && read(t, test.pid) != strconv.Itoa(p.pid()) {
				t.Errorf("pid file: %s", read(t, test.pid))
			}
			if test.pid != "" {
				second := u.start(test.dir, test.variables)
				if code := second.wait(); code != exit.Running {
					t.Errorf("a second instance: %d, %s", code, second.stderr)
				}
			}
			p.stopped()
			if test.access != "" && !strings.Contains(read(t, test.access), stopped) {
				t.Errorf("access log: %s", read(t, test.access))
			}
			if test.errorLog != "" && !strings.Contains(read(t, test.errorLog), "connection refused") {
				t.Errorf("error log: %s", read(t, test.errorLog))
			}
		})
	}
}

// A path that somebody has configured is used unchanged.
func TestChosenPathsAreNotReplaced(t *testing.T) {
	u := newOrdinary(t)
	p := u.start("/", []string{"HOME=" + u.home, "DELAYER_PID=/proc/delayer.pid"})
	if code := p.wait(); code != exit.Usage || !strings.HasPrefix(p.stderr.String(), "ERROR: delayer.pid: ") || !strings.Contains(p.stderr.String(), "/proc/delayer.pid") {
		t.Errorf("exit code %d: %s", code, p.stderr)
	}
}
