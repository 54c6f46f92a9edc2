//go:build !windows

package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sevlyar/go-daemon"

	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/testing/shelltest"
)

func TestPIDFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a folder", "that is made", "delayer.pid")
	f, err := lockPIDFile(path)
	redistest.Check(t, err)
	if content, _ := os.ReadFile(path); string(content) != strconv.Itoa(os.Getpid()) {
		t.Errorf("content %q", content)
	}
	f.release()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after release: %v", err)
	}
	if f, err = lockPIDFile(""); f != nil || err != nil {
		t.Errorf("without a path: %v, %v", f, err)
	}
	f.release()
}

// A file left by a crash or a power cut is taken over, even one with a longer ID, or with the ID that this process was given again.
func TestStalePIDFile(t *testing.T) {
	os.WriteFile("/proc/self/comm", []byte("delayer"), 0) // on Linux: so that this process counts as an instance
	for _, stale := range []string{"", "1", "99999999999\n", "\x00\x00\x00", strconv.Itoa(os.Getpid())} {
		path := filepath.Join(t.TempDir(), "delayer.pid")
		redistest.Check(t, os.WriteFile(path, []byte(stale), 0o644))
		f, err := lockPIDFile(path)
		if err != nil {
			t.Errorf("%q: %v", stale, err)
			continue
		}
		if content, _ := os.ReadFile(path); string(content) != strconv.Itoa(os.Getpid()) {
			t.Errorf("%q became %q", stale, content)
		}
		f.release()
	}
}

// A second start harms neither the file nor the lock of the first.
func TestLockedPIDFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "delayer.pid")
	f, err := lockPIDFile(path)
	redistest.Check(t, err)
	defer f.release()
	for range 2 {
		second, err := lockPIDFile(path)
		if want := (runningError{os.Getpid()}); second != nil || !errors.Is(err, want) {
			t.Fatalf("second lock: %v, %v", second, err)
		}
		if !f.isInPlace() {
			t.Fatal("the file has gone")
		}
	}
}

// The ID in a locked file may belong to a previous holder until the new one has written its own, or
// may be meaningless here, as from another container.
func TestLockedByUnknown(t *testing.T) {
	for _, content := range []string{"", "99999999"} {
		t.Run(content, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "delayer.pid")
			f, err := lockPIDFile(path)
			redistest.Check(t, err)
			defer f.release()
			redistest.Check(t, os.WriteFile(path, []byte(content), 0o644))
			_, err = lockPIDFile(path)
			if err == nil || err.Error() != "delayer.pid: "+path+": another process keeps it locked" {
				t.Error(err)
			}
		})
	}
}

// An original that is started later writes its ID into our file. The file is then the original's.
func TestReleaseOfOverwrittenPIDFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "delayer.pid")
	f, err := lockPIDFile(path)
	redistest.Check(t, err)
	shelltest.Write(t, path, "1")
	f.release()
	if got := shelltest.Read(t, path); got != "1" {
		t.Errorf("content %q", got)
	}
}

// If our file was deleted by hand and another instance created a new one, the new file belongs to
// that instance.
func TestReleaseOfReplacedPIDFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "delayer.pid")
	first, err := lockPIDFile(path)
	redistest.Check(t, err)
	os.Remove(path)
	second, err := lockPIDFile(path)
	redistest.Check(t, err)
	first.release()
	if !second.isInPlace() {
		t.Error("the second one's file has gone")
	}
	second.release()
}

// An error names the key, and existing files at the path stay unchanged.
func TestPIDFileErrors(t *testing.T) {
	dir := t.TempDir()
	other := filepath.Join(dir, "delayer.conf")
	redistest.Check(t, os.WriteFile(other, []byte("[delayer]\n"), 0o644))
	for path, want := range map[string]string{
		dir:                                 "is a directory",
		other:                               "holds something else than a process ID",
		os.DevNull:                          "is no regular file",
		filepath.Join(other, "delayer.pid"): "not a directory",
	} {
		f, err := lockPIDFile(path)
		if f != nil || err == nil || !strings.HasPrefix(err.Error(), "delayer.pid: ") || !strings.Contains(err.Error(), path) && !strings.Contains(err.Error(), other) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", path, f, err)
		}
	}
	if content, err := os.ReadFile(other); string(content) != "[delayer]\n" {
		t.Errorf("content %q, %v", content, err)
	}
	if _, err := os.Stat(os.DevNull); err != nil {
		t.Error(err)
	}
}

// A start that opens the file just before a stopping instance removes it does not keep a lock that
// excludes nobody.
func TestLockOfRemovedPIDFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "delayer.pid")
	stopping, err := lockPIDFile(path)
	redistest.Check(t, err)
	file, err := daemon.OpenLockFile(path, 0o644)
	redistest.Check(t, err)
	defer file.Close()
	late := &pidFile{file, path}
	stopping.release()
	if locked, holder, err := late.lock(); locked || holder != 0 || err != nil {
		t.Errorf("nothing at the path: %v, %v, %v", locked, holder, err)
	}
	next, err := lockPIDFile(path)
	redistest.Check(t, err)
	defer next.release()
	if locked, holder, err := late.lock(); locked || holder != 0 || err != nil {
		t.Errorf("another file at the path: %v, %v, %v", locked, holder, err)
	}
}

// However starts and stops overlap, only one process holds the lock.
func TestPIDFileExcludes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "delayer.pid")
	var holders, locked atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for locked.Load() < 20 {
				f, _, err := tryLock(path)
				if err != nil {
					t.Error(err)
				}
				if f == nil {
					continue
				}
				if n := holders.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				locked.Add(1)
				runtime.Gosched() // lets others try
				holders.Add(-1)
				f.release()
			}
		})
	}
	all.Wait()
}

// Root uses the original's paths.
func TestShippedPathsForRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	d := config.Default().Delayer
	if notes := ownPaths(&d); notes != nil || d != config.Default().Delayer || d.PID != "/var/run/delayer.pid" {
		t.Errorf("%v, %+v", notes, d)
	}
}
