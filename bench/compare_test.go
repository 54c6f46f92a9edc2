package main

import (
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
