//go:build !windows

package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/commandlines.txt anew from what the program does now")

// The exit codes, standard outputs (1>) and standard errors (2>) of 200 command lines, run in order on one Redis. To add a line,
// write it into the file after "$ " and run the test with -update.
func TestCommandLines(t *testing.T) {
	file, err := filepath.Abs("testdata/commandlines.txt")
	check(t, err)
	s, _ := newShellHere(t)
	write(t, s.dir+"/good.conf", "[redis]\nport = 1\n")
	write(t, s.dir+"/bad.conf", "[redis]\nport = none\n")
	var got strings.Builder
	pages := map[string]string{} // help pages, by the line that prints them
	count := 0
	for line := range strings.Lines(read(t, file)) {
		switch {
		case line == "\n", strings.HasPrefix(line, "#"):
			got.WriteString(line)
		case strings.HasPrefix(line, "$ "):
			count++
			words := shellWords(t, line[2:])
			in := s
			if strings.HasPrefix(line, "$ env -i ") { // without the address of Redis
				words, in.env = words[2:], environment(t)
			}
			in.here = !background.MatchString(line)
			r := in.run(words[1:]...)
			fmt.Fprintf(&got, "%s%s%sexit %d\n", line, s.recorded("1> ", r.stdout, pages), s.recorded("2> ", r.stderr, pages), r.code)
			if _, known := pages[r.stdout]; !known && strings.Count(r.stdout, "\n") > 2 {
				pages[r.stdout] = strings.TrimSpace(line[2:])
			}
		}
	}
	if count < 200 {
		t.Errorf("%d command lines: want 200", count)
	}
	if *update {
		check(t, os.WriteFile(file, []byte(got.String()), 0o644))
	}
	want := strings.SplitAfter(read(t, file), "\n")
	for i, line := range strings.SplitAfter(got.String(), "\n") {
		if i >= len(want) || line != want[i] {
			t.Fatalf("%s:%d: got %q, want %q", file, i+1, line, strings.Join(want[i:min(i+1, len(want))], ""))
		}
	}
}

// recorded formats an output with the mark before each line. For a page that an earlier line printed, it names
// that line.
func (s shell) recorded(mark, output string, pages map[string]string) string {
	for page, line := range pages {
		if text, found := strings.CutSuffix(output, page); found {
			output = text + "(as: " + line + ")\n"
		}
	}
	output = strings.ReplaceAll(output, s.dir+"/", "")
	output = lookedFor.ReplaceAllString(output, "(looked for …)")
	text := ""
	for line := range strings.Lines(output) {
		text += strings.TrimSpace(mark+strings.TrimSuffix(line, "\n")) + "\n"
	}
	return text
}

// background matches lines of which some start the program anew.
var background = regexp.MustCompile(` --?d(aemon)?\b`)

var lookedFor = regexp.MustCompile(`\(looked for [^)]*\)`)
