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

	"golang.org/x/sys/unix"

	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/exit"
)

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
