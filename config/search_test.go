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
	if err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"delayer.conf", filepath.Join(filepath.Dir(executable), "delayer.conf"), filepath.Join(user, "delayer", "delayer.conf")}
	if runtime.GOOS != "windows" {
		want = append(want, "/etc/delayer/delayer.conf", "/etc/delayer.conf")
	}
	if got := places(); !reflect.DeepEqual(got, want) {
		t.Errorf("places %q, want %q", got, want)
	}

	places := []string{"delayer.conf", filepath.Join(dir, "delayer.conf"), filepath.Join(dir, "b"), filepath.Join(dir, "c")}
	checkSearch := func(wantPath string, wantTried ...string) {
		t.Helper()
		path, tried := search(places)
		if path != wantPath || !reflect.DeepEqual(tried, wantTried) {
			t.Errorf("search: %q, %q; want %q, %q", path, tried, wantPath, wantTried)
		}
	}
	checkSearch("", places[0], places[2], places[3])
	if err := os.WriteFile("c", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	checkSearch(places[3], places[0], places[2], places[3])
	if err := os.WriteFile("delayer.conf", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	checkSearch(places[0], places[0])
	if path, tried := Search(); path != "delayer.conf" || len(tried) != 1 {
		t.Errorf("Search: %q, %q; want the file in the current directory", path, tried)
	}
}
