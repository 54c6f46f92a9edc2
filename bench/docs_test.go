package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The commands in the documents use only existing flags and workloads.
func TestDocumentedCommands(t *testing.T) {
	program := filepath.Join(t.TempDir(), "bench")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pages, err := filepath.Glob("../*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, page := range append(pages, "../README.md", "../README.zh-CN.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile("go run -C bench \\. ([^\n`#]+)").FindAllStringSubmatch(string(text), -1) {
			count++
			args := strings.Fields(found[1])
			if out, err := exec.Command(program, append(args, "-h")...).CombinedOutput(); err != nil {
				t.Errorf("%s: bench %s: %v\n%s", page, found[1], err, out)
			}
			if at := slices.Index(args, "-only"); at >= 0 {
				if _, err := choose(args[at+1]); err != nil {
					t.Errorf("%s: bench %s: %v", page, found[1], err)
				}
			}
		}
	}
	if count < 4 {
		t.Errorf("found %d commands", count)
	}
}
