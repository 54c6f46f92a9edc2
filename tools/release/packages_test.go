//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func inRoot(folder string) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Chroot: folder, Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
}

// tool finds a program that installs packages. make e2e needs it.
func tool(t *testing.T, name string) string {
	t.Helper()
	t.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin")
	if os.Geteuid() != 0 {
		t.Skipf("%s runs a package's scripts for root only", name)
	}
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("PACKAGING") == "needed" {
		t.Fatal(err)
	} else if err != nil {
		t.Skipf("%v: tools/prepare.sh browser installs it", err)
	}
	return path
}

// newRoot is a folder that is a system of its own, with what the packages' scripts need.
func newRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	write(t, root, "etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
	write(t, root, "etc/group", "root:x:0:\n")
	write(t, root, "etc/login.defs", "")
	write(t, root, "dev/null", "") // a file will do
	for _, name := range []string{"sh", "chgrp", "stat", "grep", "rm", "systemd-sysusers", "useradd"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		libraries, err := exec.Command("ldd", path).Output()
		if err != nil {
			t.Fatalf("ldd %s: %v", path, err)
		}
		for _, file := range append(strings.Fields(string(libraries)), path) {
			if !filepath.IsAbs(file) {
				continue
			}
			data, err := os.ReadFile(file)
			must(t, err)
			if file == path {
				file = "/bin/" + name
			}
			write(t, root, file, string(data))
			must(t, os.Chmod(filepath.Join(root, file), 0o755))
		}
	}
	return root
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)))
}

// older builds packages of an older version, with another delayer.conf, and returns their folder.
func older(t *testing.T) string {
	t.Helper()
	source := t.TempDir()
	must(t, os.CopyFS(filepath.Join(source, "docs"), os.DirFS(filepath.Join(sources, "docs"))))
	for _, name := range []string{"LICENSE", "CHANGELOG.md"} {
		write(t, source, name, "older\n")
	}
	write(t, source, "delayer.conf", olderConf)
	b := &builder{options: options{version: "1.2.2", source: source, out: t.TempDir()}, time: commitTime(""), temp: t.TempDir()}
	must(t, b.packages(runtime.GOARCH, []byte("an older program"), nil))
	return b.out
}

const (
	olderConf = "; as it was shipped\n"
	ownConf   = "[redis]\nhost = elsewhere\n"
)

func packageFile(folder, version, format string) string {
	return filepath.Join(folder, "delayer-"+version+"-linux-"+runtime.GOARCH+"."+format)
}

// system is a root folder that packages are installed in.
type system struct {
	*testing.T
	root string
}

func (s system) run(arguments ...string) {
	s.Helper()
	if out, err := exec.Command(arguments[0], arguments[1:]...).CombinedOutput(); err != nil {
		s.Fatalf("%s: %v\n%s", strings.Join(arguments, " "), err, out)
	}
}

func (s system) read(name string) string {
	data, err := os.ReadFile(filepath.Join(s.root, name))
	if err != nil {
		return ""
	}
	return string(data)
}

// isInstalled fails unless the version is installed whole, with that configuration, which only root and the user delayer can read.
func (s system) isInstalled(version, conf string) {
	s.Helper()
	if out, err := exec.Command(filepath.Join(s.root, "usr/bin/delayer"), "-v").CombinedOutput(); version == testVersion && (err != nil || string(out) != version+"\n") {
		s.Errorf("delayer -v: %v, %s", err, out)
	}
	if got := s.read("etc/delayer/delayer.conf"); got != conf {
		s.Errorf("delayer.conf:\n%s\nwant\n%s", got, conf)
	}
	info, err := os.Stat(filepath.Join(s.root, "etc/delayer/delayer.conf"))
	must(s.T, err)
	group := -1
	for line := range strings.Lines(s.read("etc/group")) {
		if fields := strings.Split(line, ":"); fields[0] == "delayer" {
			group = int(info.Sys().(*syscall.Stat_t).Gid)
			if want := fields[2]; want == "0" {
				s.Errorf("the group is %s", line)
			}
		}
	}
	if info.Mode() != 0o640 || group <= 0 {
		s.Errorf("delayer.conf: %v of the group %d\n%s", info.Mode(), group, s.read("etc/group"))
	}
	if unit := s.read("usr/lib/systemd/system/delayer.service"); !strings.Contains(unit, "ExecStart=/usr/bin/delayer ") {
		s.Errorf("the unit:\n%s", unit)
	}
	if !strings.Contains(s.read("etc/passwd"), "delayer:") {
		s.Errorf("no user: %s", s.read("etc/passwd"))
	}
}

// gone fails if one of the files is there.
func (s system) gone(names ...string) {
	s.Helper()
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(s.root, name)); err == nil {
			s.Errorf("%s is still there", name)
		}
	}
}

// The .deb is installed, upgraded with the configuration that somebody has changed, removed and purged.
func TestDebInstalled(t *testing.T) {
	dpkg := tool(t, "dpkg")
	s := system{t, newRoot(t)}
	for _, folder := range []string{"info", "updates", "triggers"} {
		write(t, s.root, "var/lib/dpkg/"+folder+"/.keep", "")
	}
	write(t, s.root, "var/lib/dpkg/status", "")
	do := func(arguments ...string) {
		t.Helper()
		s.run(append([]string{dpkg, "--root=" + s.root, "--log=" + filepath.Join(s.root, "log"), "--force-confdef", "--force-confold"}, arguments...)...)
	}
	do("--install", packageFile(older(t), "1.2.2", "deb"))
	s.isInstalled("1.2.2", olderConf)
	write(t, s.root, "etc/delayer/delayer.conf", ownConf)
	write(t, s.root, "var/log/delayer/error.log", "a line\n")
	do("--install", packageFile(built, testVersion, "deb"))
	s.isInstalled(testVersion, ownConf)
	do("--remove", "delayer")
	s.gone("usr/bin/delayer", "usr/lib/systemd/system/delayer.service")
	if got := s.read("etc/delayer/delayer.conf"); got != ownConf {
		t.Errorf("delayer.conf after the removal: %s", got)
	}
	do("--purge", "delayer")
	s.gone("etc/delayer", "etc/logrotate.d/delayer", "var/log/delayer", "usr/share/doc/delayer")
}

// The .rpm likewise. RPM keeps a changed configuration under another name.
func TestRPMInstalled(t *testing.T) {
	rpm := tool(t, "rpm")
	s := system{t, newRoot(t)}
	do := func(arguments ...string) {
		t.Helper()
		s.run(append([]string{rpm, "--root=" + s.root, "--dbpath=/var/lib/rpm", "--nosignature"}, arguments...)...)
	}
	do("--initdb")
	do("--nodeps", "--install", packageFile(older(t), "1.2.2", "rpm"))
	s.isInstalled("1.2.2", olderConf)
	write(t, s.root, "etc/delayer/delayer.conf", ownConf)
	do("--nodeps", "--upgrade", packageFile(built, testVersion, "rpm"))
	s.isInstalled(testVersion, ownConf)
	do("--erase", "delayer")
	s.gone("usr/bin/delayer", "usr/lib/systemd/system/delayer.service", "etc/delayer/delayer.conf", "etc/logrotate.d/delayer")
	if got := s.read("etc/delayer/delayer.conf.rpmsave"); got != ownConf {
		t.Errorf("delayer.conf.rpmsave: %s", got)
	}
}

// The .apk has its control files and scripts first, then the program with a service for OpenRC.
func TestAPK(t *testing.T) {
	root := t.TempDir()
	z, err := gzip.NewReader(bytes.NewReader(result(t, ".apk")))
	must(t, err)
	archive, err := io.ReadAll(z) // both archives: the first has no end
	must(t, err)
	unpack(t, bytes.NewReader(archive), root)
	s := system{t, root}
	control := strings.Split(s.read(".PKGINFO"), "\n")
	for _, line := range []string{"pkgname = delayer", "pkgver = 1.2.3_pre-r0", "license = Apache-2.0"} {
		if !slices.Contains(control, line) {
			t.Errorf("no line %s in %q", line, control)
		}
	}
	for _, name := range []string{".post-install", ".post-upgrade", ".pre-deinstall", ".post-deinstall", "etc/init.d/delayer"} {
		write(t, root, "script", s.read(name))
		s.run("sh", "-n", filepath.Join(root, "script"))
		if s.read(name) == "" {
			t.Errorf("%s is missing", name)
		}
	}
	s.run(filepath.Join(root, "usr/bin/delayer"), "-v")
	s.gone("usr/lib/systemd", "usr/lib/sysusers.d")
}
