package main

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func after(d time.Duration) <-chan time.Time { return time.After(d) }

// gate is an output that answers each write with the next error; closed, with none.
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

// Lines stay whole whatever the pieces in which they come, and the end of all is kept.
func TestLines(t *testing.T) {
	long := strings.Repeat("x", 2*maxLine)
	for _, test := range []struct {
		name   string
		pieces []string
		want   []string // after each piece; and at the end
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
			w := newLineWriter(g, nil)
			l := &lines{to: w, keep: 4}
			for _, piece := range test.pieces {
				if n, err := l.Write([]byte(piece)); n != len(piece) || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			}
			kept := l.end()
			l.Write([]byte("too late"))
			w.close()
			<-w.ended
			if want := strings.Join(test.want, ""); g.written.String() != want || kept != test.kept {
				t.Errorf("got %.20q, kept %q; want %.20q, %q", g.written.String(), kept, want, test.kept)
			}
		})
	}
}

// What can't be written is told of once, and again with the number when writing works.
func TestLinesAreLost(t *testing.T) {
	g := &gate{answers: make(chan error)}
	told := make(chan string, 9)
	w := newLineWriter(g, func(message string) { told <- message })
	w.stuck.Store(true) // its patience is over
	writes := 0
	for ; len(told) == 0; writes++ {
		io.WriteString(w, "a\nb\n")
	}
	if got := <-told; got != "lines are lost: it is not read" {
		t.Error(got)
	}
	g.answers <- errors.New("full")
	close(g.answers)
	if got := <-told; got != "works again, lines lost: 4" {
		t.Error(got)
	}
	w.close()
	<-w.ended
	if got := g.written.String(); got != strings.Repeat("a\nb\n", writes-2) {
		t.Errorf("%d bytes written", len(got))
	}
	io.WriteString(w, "too late\n") // harms nothing
	if len(told) > 0 {
		t.Errorf("told more: %q", <-told)
	}
}

// The error that is kept has the program's last line in front, and the end of its output.
func TestWithOutput(t *testing.T) {
	failed := errors.New("exit status 1")
	long := strings.Repeat("ü", maxKept)
	for output, want := range map[string]string{
		"":                   "exit status 1",
		" \n":                "exit status 1",
		"why\n":              "exit status 1: why",
		"Traceback\nwhy\n\n": "exit status 1: why\nTraceback\nwhy",
	} {
		if got := withOutput(failed, output).Error(); got != want {
			t.Errorf("%q: got %q, want %q", output, got, want)
		}
	}
	for _, output := range []string{long, long + "\nwhy", "why\n" + long, long + "\n" + long[:2000], long + "x\n" + long[:1024]} {
		got := withOutput(failed, output)
		text := got.Error()
		if len(text) > maxKept || len(text) < maxKept/2 || !utf8.ValidString(text) || !strings.HasSuffix(text, output[len(output)-100:]) || !errors.Is(got, failed) {
			t.Errorf("%d bytes: %.50q…", len(text), text)
		}
	}
	if text := withOutput(failed, long+"\nwhy").Error(); !strings.HasPrefix(text, "exit status 1: why\n… ü") {
		t.Errorf("%.50q", text)
	}
}
