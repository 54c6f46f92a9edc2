//go:build !windows

package runner

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// A command that a shell may be able to run is not refused.
func TestWorkerWithProgram(t *testing.T) {
	script := filepath.Join(t.TempDir(), "good script")
	redistest.Check(t, os.WriteFile(script, []byte("#! /usr/bin/env -S sh -e\n"), 0o755))
	for _, command := range []string{
		"true", " sh -c x", "cd /; ./x", "set -- x", "A=$HOME ./x", "(./x)", "{ ./x; }", "! ./x", "while :; do x; done", `"./x"`, "$X y", "~/x", "./x*", "exec 3>x", "f() { x; }; f", "if x; then y; fi", ">x y", "'" + script + "' x",
	} {
		if err := (&program{shell: command}).find(); err != nil {
			t.Errorf("--exec %q: %v", command, err)
		}
	}
	for _, words := range [][]string{{"sh"}, {script, "x"}, {os.Args[0]}} {
		if err := (&program{words: words}).find(); err != nil {
			t.Errorf("%q: %v", words, err)
		}
	}
}

// The worker's rests become longer while the program is missing.
func TestRestOfAWorkerWithoutProgram(t *testing.T) {
	var p program
	begin := time.Now()
	rest := func(after time.Duration) time.Duration { return p.rest(begin.Add(after)) }
	for _, test := range [][2]time.Duration{{0, time.Second}, {0, time.Second}, {3 * time.Second, 3 * time.Second}, {time.Hour, 15 * time.Second}} {
		if got := rest(test[0]); got != test[1] {
			t.Errorf("rests for %v after %v, want %v", got, test[0], test[1])
		}
	}
	p.started()
	if got := rest(2 * time.Hour); got != time.Second {
		t.Errorf("rests for %v when the program was there meanwhile, want %v", got, time.Second)
	}
}
