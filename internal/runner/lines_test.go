package runner

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/mix-basic/delayer/internal/async"
)

// gate is an output that answers each write with the next error. After closing it returns no error.
type gate struct {
	answers chan error
	written strings.Builder
}

func (g *gate) Write(b []byte) (int, error) {
	if err := <-g.answers; err != nil {
		return 0, err
	}
	return g.written.Write(b)
}

// Lines stay whole whatever the pieces in which they arrive, and the end of the output is kept.
func TestLines(t *testing.T) {
	long := strings.Repeat("x", 2*maxLine)
	for _, test := range []struct {
		name   string
		pieces []string
		want   []string // after each piece, and at the end
		kept   string
	}{
		{"nothing", nil, []string{""}, ""},
		{"a line", []string{"a\n"}, []string{"a\n", ""}, "a\n"},
		{"half a line", []string{"a", "b\nc", "d"}, []string{"", "ab\n", "", "cd\n"}, "b\ncd"},
		{"too long a line", []string{long, "y"}, []string{long, "", "y\n"}, "xxxy"},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := &gate{answers: make(chan error)}
			close(g.answers)
			w := async.New(g.Write, readPatience)
			l := &lines{to: w, keep: 4}
			for _, piece := range test.pieces {
				if n, err := l.Write([]byte(piece)); n != len(piece) || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			}
			kept := l.end()
			l.Write([]byte("too late"))
			w.Close()
			if want := strings.Join(test.want, ""); g.written.String() != want || kept != test.kept {
				t.Errorf("got %.20q, kept %q; want %.20q, %q", g.written.String(), kept, want, test.kept)
			}
		})
	}
}

// Lost lines are reported once, and again with their number when writing works.
func TestLinesAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{answers: make(chan error)}
		told := make(chan string, 9)
		w := newReportingOutput(g, func(message string) { told <- message })
		began := time.Now()
		writes := 0
		for ; len(told) == 0; writes++ {
			io.WriteString(w, "a\nb\n")
		}
		if got := <-told; got != "lines are lost: it is not read" || time.Since(began) != readPatience {
			t.Error(got, time.Since(began))
		}
		g.answers <- errors.New("full")
		close(g.answers)
		if got := <-told; got != "works again, lines lost: 4" {
			t.Error(got)
		}
		w.Close()
		if got := g.written.String(); got != strings.Repeat("a\nb\n", writes-2) {
			t.Errorf("%d bytes written", len(got))
		}
		io.WriteString(w, "too late\n") // has no effect
		if len(told) > 0 {
			t.Errorf("told more: %q", <-told)
		}
	})
}

// The stored error contains the end of the program's output: whole lines, or else whole characters.
func TestWithOutput(t *testing.T) {
	failed := errors.New("exit status 1")
	long := strings.Repeat("ü", maxKept)
	short := strings.Repeat("é\n", maxKept)
	for output, want := range map[string]string{
		"":                        "",
		" \n":                     "",
		"why\n":                   ": why",
		"Traceback\nwhy\n\n":      ": Traceback\nwhy",
		long[:maxKept]:            ": " + long[:maxKept],
		long:                      ": … " + long[:maxKept-4],
		"why\n" + long:            ": … " + long[:maxKept-4],
		"x" + long:                ": … " + long[:maxKept-4],
		long + "y":                ": … " + long[:maxKept-6] + "y",
		long + "\nwhy":            ": … " + long[:maxKept-8] + "\nwhy",
		long + "\n" + long[:2000]: ": … " + long[:2000],
		short:                     ": … " + strings.TrimSpace(short[:maxKept-6]),
	} {
		got := withOutput(failed, output)
		if got.Error() != "exit status 1"+want || !errors.Is(got, failed) || !utf8.ValidString(got.Error()) {
			t.Errorf("%.20q… of %d: got %.40q… of %d, want %.40q… of %d", output, len(output), got.Error(), len(got.Error()), want, len(want)+13)
		}
	}
}
