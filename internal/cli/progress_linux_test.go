package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/testing/shelltest"
)

// A long command shows a bar on a terminal and clears it at the end. Elsewhere it prints an occasional line.
func TestProgress(t *testing.T) {
	screen, terminal := shelltest.OpenTerminal(t)
	bar := newProgress(terminal)
	bar.show(50, 150, "50 jobs")
	bar.show(51, 150, "51 jobs") // too early to be shown
	bar.shown = time.Time{}
	bar.show(140, 150, "140 jobs")
	bar.end()
	want := "\r[##########....................] 50 jobs" + "\r[############################..] 140 jobs"
	want += "\r" + strings.Repeat(" ", len(want[strings.LastIndex(want, "\r")+1:])) + "\r"
	got := make([]byte, len(want))
	_, err := io.ReadFull(screen, got)
	redistest.Check(t, err)
	if string(got) != want {
		t.Errorf("on the terminal stands %q, want %q", got, want)
	}
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	redistest.Check(t, err)
	lines := newProgress(file)
	lines.show(0, 0, "none")
	lines.shown = lines.shown.Add(-lineEvery)
	lines.show(50, 0, "50 jobs")
	lines.end()
	if got, err := os.ReadFile(file.Name()); string(got) != "50 jobs\n" || err != nil {
		t.Errorf("in the file stands %q, %v", got, err)
	}
}
