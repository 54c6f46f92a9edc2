package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestFiguresArePairedTurnByTurn(t *testing.T) {
	section := func(rate float64) Section {
		return Section{Tables: []Table{{
			Title: "Push", Columns: []Column{{Name: "jobs/s"}, {Name: "p99, ms", Digits: 1}, {Name: "never measured"}},
			Rows: []Row{{"Delayer", []Sample{{rate}, {0}, nil}}},
		}}}
	}
	var figures []*figure
	for _, turn := range []struct {
		side int
		rate float64
	}{{0, 100}, {1, 50}, {1, 40}, {0, 120}} {
		figures = collect(figures, section(turn.rate), turn.side)
	}
	var out strings.Builder
	printFigures(&out, workload{name: "push"}, [2]side{{name: "this tree"}, {name: "old"}}, figures)
	want := `
push                    this tree      old         ratio, pair by pair
Push: Delayer  jobs/s   110 (100–120)  45 (40–50)  2.50 (2.00–3.00)
Push: Delayer  p99, ms  0.0            0.0         –
`
	if got := out.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestOtherTreeNamesWhatItCannotFind(t *testing.T) {
	if folder, err := otherTree(".."); err != nil || !strings.HasPrefix(folder, "/") {
		t.Errorf("the tree above: %q, %v", folder, err)
	}
	if _, err := otherTree("no-such-revision"); err == nil || !strings.Contains(err.Error(), "-against no-such-revision: neither") {
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
	s := side{"other", filepath.Join(t.TempDir(), "other")}
	if err := s.build(tree); err != nil {
		t.Fatal(err)
	}
	got, err := s.measure(workload{name: "push"})
	if err != nil || got.Name != "push" || !reflect.DeepEqual(got.Tables[0].Rows[0].Cells[0], Sample{7}) {
		t.Errorf("push: %+v, %v", got, err)
	}
	if _, err := s.measure(workload{name: "push2"}); !errors.Is(err, errNoWorkload) {
		t.Errorf("a workload that it does not have: %v", err)
	}
	if _, err := s.measure(workload{name: "take"}); err == nil || errors.Is(err, errNoWorkload) {
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
	sides := [2]side{
		{"this tree", program(answer)},
		{"old", program(`echo >> "$0.runs"; [ $(wc -l < "$0.runs") -lt 3 ] || exit 1` + "\n" + answer)},
	}
	figures, err := measurePairs(workload{name: "push"}, 16, sides)
	if err == nil || !strings.HasPrefix(err.Error(), "old: ") {
		t.Errorf("got %v", err)
	}
	if want := [2]Sample{{7, 7}, {7, 7}}; len(figures) != 1 || !reflect.DeepEqual(figures[0].got, want) {
		t.Errorf("got %+v, want one figure with %v", figures, want)
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
