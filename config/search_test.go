package config

import (
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"testing"
)

func TestSearch(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HOME", dir)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config"))
	t.Setenv("AppData", filepath.Join(dir, "config"))
	user, err := os.UserConfigDir()
	must(t, err)
	executable, err := os.Executable()
	must(t, err)
	want := []string{"delayer.conf", filepath.Join(filepath.Dir(executable), "delayer.conf"), filepath.Join(user, "delayer", "delayer.conf")}
	if runtime.GOOS != "windows" {
		want = append(want, "/etc/delayer/delayer.conf", "/etc/delayer.conf")
	}
	checkSearch := func(wantPath string) {
		t.Helper()
		if path, places := Search(); path != wantPath || !reflect.DeepEqual(places, want) {
			t.Errorf("got %q, %q; want %q, %q", path, places, wantPath, want)
		}
	}
	checkSearch("")
	must(t, os.MkdirAll(filepath.Dir(want[2]), 0o700))
	for _, path := range []string{want[2], want[0]} {
		must(t, os.WriteFile(path, nil, 0o600))
		checkSearch(path)
	}
}
