//go:build !windows

package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// packaged returns a file that is installed with the program.
func packaged(tb testing.TB, path ...string) string {
	tb.Helper()
	return read(tb, filepath.Join(append([]string{"..", ".."}, path...)...))
}

// tool finds a program that may be missing on this machine.
func tool(t *testing.T, name string) string {
	t.Helper()
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin")
	path, err := exec.LookPath(name)
	switch {
	case err == nil:
	case os.Getenv("PACKAGING") == "needed" && runtime.GOOS == "linux":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	return path
}

// systemd understands the unit, and does not restart the service if a restart can't help.
func TestUnit(t *testing.T) {
	unit := packaged(t, "docs", "systemd", "delayer.service")
	for _, line := range []string{
		fmt.Sprintf("RestartPreventExitStatus=%d %d %d", exit.Usage, exit.Redis, exit.Running),
		"Restart=always", // after SIGHUP the service exits with 0
		"ExecStart=/usr/local/bin/delayer -c /etc/delayer/delayer.conf",
		"ExecReload=/bin/kill -USR2 $MAINPID",
		"Type=notify",
		"WatchdogSec=3min",
		"User=delayer",
		"RuntimeDirectory=delayer",
		"LogsDirectory=delayer",
	} {
		if !strings.Contains(unit, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	analyze := tool(t, "systemd-analyze")
	dir := t.TempDir()
	// The commented settings must be valid, too.
	unit = regexp.MustCompile(`(?m)^#(\w+=)`).ReplaceAllString(unit, "$1")
	path := filepath.Join(dir, "delayer.service")
	write(t, path, strings.Replace(unit, "/usr/local/bin/delayer", binary, 1))
	if out, err := exec.Command(analyze, "verify", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	// The threshold is the exposure, from 0.0 to 10.0, times ten.
	if out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=16", path).CombinedOutput(); err != nil {
		t.Errorf("systemd-analyze security: %v\n%s", err, out)
	}
	users := filepath.Join(dir, "delayer.conf")
	write(t, users, packaged(t, "docs", "systemd", "delayer.sysusers"))
	if out, err := exec.Command(tool(t, "systemd-sysusers"), "--dry-run", users).CombinedOutput(); err != nil {
		t.Errorf("systemd-sysusers: %v\n%s", err, out)
	}
}

// A rotation moves the logs of a running daemon, which continues in new files. It fails neither
// without a daemon nor with the pid file of a killed one.
func TestLogrotate(t *testing.T) {
	logrotate := tool(t, "logrotate")
	s := newSite(t, redistest.Start(t).Addr)
	we, err := user.Current()
	check(t, err)
	group, err := user.LookupGroupId(we.Gid)
	check(t, err)
	conf := strings.NewReplacer(
		"/var/log/delayer/*.log", `"`+filepath.Dir(s.access)+`/*.log"`,
		"/run/delayer/delayer.pid", `"`+s.pid+`"`,
		"su delayer delayer", "su "+we.Username+" "+group.Name,
	).Replace(packaged(t, "docs", "logrotate", "delayer"))
	path := filepath.Join(t.TempDir(), "delayer")
	write(t, path, conf)
	rotate := func() {
		t.Helper()
		cmd := exec.Command(logrotate, "--force", "--state", path+".state", path)
		if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
			t.Fatalf("logrotate: %v\n%s", err, out)
		}
	}
	p := s.started(t)
	rotate()
	eventually(t, "the logs are there again", func() bool { return exists(s.access) && exists(s.errors) })
	if old := read(t, s.access+".1"); !strings.Contains(old, started) {
		t.Errorf("the old access log: %q", old)
	}
	p.signal(syscall.SIGTERM)
	p.wait()
	if got := read(t, s.access); !strings.Contains(got, stopped) {
		t.Errorf("the new access log: %q", got)
	}
	rotate()
	write(t, s.access, "more\n")
	write(t, s.pid, "99999999")
	rotate()
	if exists(s.access) {
		t.Error("a log without a daemon is not rotated")
	}
}

// make install-systemd installs everything, and keeps an existing configuration. make uninstall
// removes the rest.
func TestInstall(t *testing.T) {
	makeTool := tool(t, "make")
	dir := filepath.Join(t.TempDir(), "an image")
	do := func(target string) {
		t.Helper()
		// The program exists already: nothing is built.
		cmd := exec.Command(makeTool, "-C", filepath.Join("..", ".."), "-o", "build", target, "BIN="+filepath.Dir(binary), "DESTDIR="+dir, "PREFIX=/opt/delayer")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	do("install-systemd")
	conf := filepath.Join(dir, "etc", "delayer", "delayer.conf")
	if info, err := os.Stat(conf); err != nil || info.Mode() != 0o640 || read(t, conf) != packaged(t, "delayer.conf") {
		t.Errorf("delayer.conf: %v, %v", info, err)
	}
	unit := strings.ReplaceAll(packaged(t, "docs", "systemd", "delayer.service"), "/usr/local/bin/", "/opt/delayer/bin/")
	for path, want := range map[string]string{
		"etc/systemd/system/delayer.service": unit,
		"etc/sysusers.d/delayer.conf":        packaged(t, "docs", "systemd", "delayer.sysusers"),
		"etc/logrotate.d/delayer":            packaged(t, "docs", "logrotate", "delayer"),
	} {
		if got := read(t, filepath.Join(dir, path)); got != want {
			t.Errorf("%s is\n%s\nwant\n%s", path, got, want)
		}
	}
	write(t, conf, "[redis]\nhost = h\n")
	do("install-systemd")
	if got := read(t, conf); got != "[redis]\nhost = h\n" {
		t.Errorf("delayer.conf became %s", got)
	}
	installed := filesIn(t, dir)
	for _, path := range []string{"bin/delayer", "share/man/man1/delayer.1", "share/man/man5/delayer.conf.5", "share/zsh/site-functions/_delayer"} {
		if !slices.Contains(installed, "opt/delayer/"+path) {
			t.Errorf("%s is not among what is installed: %q", path, installed)
		}
	}
	do("uninstall")
	if left := filesIn(t, dir); !slices.Equal(left, []string{"etc/delayer/delayer.conf"}) {
		t.Errorf("left after make uninstall: %q", left)
	}
	do("uninstall")
}

// filesIn lists all files in a folder and its folders.
func filesIn(t *testing.T, folder string) (names []string) {
	t.Helper()
	check(t, fs.WalkDir(os.DirFS(folder), ".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			names = append(names, name)
		}
		return err
	}))
	return names
}
