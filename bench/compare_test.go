package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The results of both sides are in the format that benchstat reads.
func TestBenchstatReadsTheResults(t *testing.T) {
	section := func(rate float64) Section {
		return Section{Name: "push", Tables: []Table{{
			ID: "push", Columns: []Column{{Name: "1 goroutine"}, {Name: "p99, ms"}, {Name: "p99, ms"}, {Name: "never measured"}},
			Rows: Rows{{"Delayer, PushBatch", []Sample{{rate, rate + 1, rate + 2}, {1, 1, 1}, {2}, nil}}},
		}}}
	}
	args := []string{"go", "tool", "benchstat", "-format", "csv"}
	for i, rate := range []float64{100, 50} {
		var text bytes.Buffer
		section(rate).benchmarks(&text)
		file := filepath.Join(t.TempDir(), "results")
		check(os.WriteFile(file, text.Bytes(), 0o644))
		args = append(args, []string{"main", "this tree"}[i]+"="+file)
	}
	got := string(output(args...))
	for _, want := range []string{"main", "this tree", "1_goroutine", "p99,_ms#2", "push/push/Delayer,_PushBatch", "101", "51"} {
		if !strings.Contains(got, want) {
			t.Errorf("there is no %q in\n%s", want, got)
		}
	}
}

func TestOtherTreeNamesWhatItCannotFind(t *testing.T) {
	if folder := otherTree(".."); !strings.HasPrefix(folder, "/") {
		t.Errorf("the tree above: %q", folder)
	}
	if err := attempt(func() { otherTree("no-such-revision") }); err == nil || !strings.Contains(err.Error(), "-against no-such-revision: neither") {
		t.Errorf("got %v", err)
	}
}

// The other tree's packages share nothing with this one's, so only its own bench can be built with them.
func TestTheOtherSideIsItsOwnBench(t *testing.T) {
	tree := t.TempDir()
	bench := filepath.Join(tree, "bench")
	if err := os.Mkdir(bench, 0o755); err != nil {
		t.Fatal(err)
	}
	_, unknown := choose("push2")
	for file, text := range map[string]string{
		filepath.Join(tree, "go.mod"):   "module github.com/mix-basic/delayer\n",
		filepath.Join(bench, "go.mod"):  "module github.com/mix-basic/delayer/bench\n",
		filepath.Join(bench, "main.go"): fmt.Sprintf(otherBench, unknown),
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s := side{"other", filepath.Join(t.TempDir(), "other"), ""}
	s.build(tree)
	if got := s.measure(workload{name: "push"}); got.Name != "push" || !slices.Equal(got.Tables[0].Rows[0].Cells[0], Sample{7}) {
		t.Errorf("push: %+v", got)
	}
	if err := attempt(func() { s.measure(workload{name: "push2"}) }); !errors.Is(err, errNoWorkload) {
		t.Errorf("a workload that it does not have: %v", err)
	}
	if err := attempt(func() { s.measure(workload{name: "take"}) }); err == nil || errors.Is(err, errNoWorkload) {
		t.Errorf("a workload that fails: %v", err)
	}
}

func TestAFailureKeepsThePairsBeforeIt(t *testing.T) {
	program := func(body string) string {
		path := filepath.Join(t.TempDir(), "bench")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const answer = `echo '{"Tables":[{"Rows":[{"Name":"row","Cells":[[7]]}],"Columns":[{"Name":"column"}]}]}'` + "\n"
	results := filepath.Join(t.TempDir(), "results")
	sides := []side{
		{"this tree", program(answer), results},
		{"old", program(`echo >> "$0.runs"; [ $(wc -l < "$0.runs") -lt 3 ] || exit 1` + "\n" + answer), results + ".old"},
	}
	err := attempt(func() { measurePairs(workload{name: "push"}, 16, sides) })
	if err == nil || !strings.HasPrefix(err.Error(), "old: ") {
		t.Errorf("got %v", err)
	}
	for _, s := range sides {
		if got := strings.Count(string(must(os.ReadFile(s.results))), " 7 column\n"); got != 2 {
			t.Errorf("%s has %d results, want 2", s.name, got)
		}
	}
}

// otherBench is a program with the workloads push and take, of which take fails. It reports unknown workloads
// like choose.
const otherBench = `package main

import (
	"fmt"
	"os"
)

func main() {
	switch os.Args[2] {
	case "push":
		fmt.Println("{\"Name\":\"push\",\"Tables\":[{\"Rows\":[{\"Cells\":[[7]]}]}]}")
	case "take":
		fmt.Fprintln(os.Stderr, "bench: Redis is away")
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "bench:", %q)
		os.Exit(1)
	}
}
`
