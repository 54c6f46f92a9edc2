package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// side is one of two trees to compare, with its own bench built from its own packages.
type side struct {
	name    string
	program string
	results string // file in the format of Go's benchmarks
}

// compare measures each workload of this tree and of another revision or directory in alternating order (A B,
// B A, A B …), so that a machine that slows down or speeds up favours neither, and lets benchstat compare.
// Workloads that the other bench lacks are skipped.
func compare(against string, pairs int, chosen []workload) {
	sides := buildSides(against)
	for _, w := range chosen {
		err := attempt(func() { measurePairs(w, pairs, sides) })
		if errors.Is(err, errNoWorkload) {
			progress("%s is left out: %v", w.name, err)
			continue
		}
		args := []string{"go", "tool", "benchstat"}
		for _, s := range sides {
			args = append(args, s.name+"="+s.results)
		}
		fmt.Printf("\n%s\n%s", w.name, output(args...))
		check(err)
	}
}

// measurePairs runs that many turns of the workload on each side. After an error, the results have the pairs
// before it.
func measurePairs(w workload, pairs int, sides []side) {
	var texts [2]bytes.Buffer
	for pair := range pairs {
		var sections [2]Section
		for i := range sides {
			which := (pair + i) % 2
			progress("%s, pair %d of %d: %s", w.name, pair+1, pairs, sides[which].name)
			sections[which] = sides[which].measure(w)
		}
		for i, s := range sides {
			sections[i].benchmarks(&texts[i])
			check(os.WriteFile(s.results, texts[i].Bytes(), 0o644))
		}
	}
}

// buildSides builds the bench of the other tree and of this one.
func buildSides(against string) []side {
	folder := newFolder()
	sides := []side{
		{against, filepath.Join(folder, "other"), filepath.Join(folder, "other.txt")},
		{"this tree", filepath.Join(folder, "this"), filepath.Join(folder, "this.txt")},
	}
	for i, tree := range []string{otherTree(against), ".."} {
		sides[i].build(tree)
	}
	return sides
}

// build builds the tree's bench.
func (s side) build(tree string) {
	output("go", "build", "-C", filepath.Join(tree, "bench"), "-o", s.program, ".")
}

// otherTree returns the directory, or checks out the revision into a temporary directory.
func otherTree(against string) string {
	if _, err := os.Stat(filepath.Join(against, "go.mod")); err == nil {
		return must(filepath.Abs(against))
	}
	folder := newFolder()
	archive := filepath.Join(folder, "sources.tar")
	if err := attempt(func() { output("git", "-C", "..", "archive", "-o", archive, against) }); err != nil {
		check(fmt.Errorf("-against %s: neither a folder with a go.mod nor a revision: %w", against, err))
	}
	output("tar", "-x", "-f", archive, "-C", folder)
	return folder
}

// output runs a program that is killed if this one ends.
func output(args ...string) []byte {
	cmd := exec.Command(args[0], args[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := must(start(cmd)).wait(); err != nil {
		check(fmt.Errorf("%s: %w\n%s", filepath.Base(args[0]), err, errs.Bytes()))
	}
	return out.Bytes()
}

// errNoWorkload means that the side's bench lacks the workload.
var errNoWorkload = errors.New("its bench has no such workload")

// measure runs one turn of the workload.
func (s side) measure(w workload) (section Section) {
	err := attempt(func() { check(json.Unmarshal(output(s.program, "-turn", w.name), &section)) })
	if err != nil && strings.Contains(err.Error(), fmt.Sprintf(noWorkload, w.name)) {
		err = errNoWorkload
	}
	if err != nil {
		check(fmt.Errorf("%s: %w", s.name, err))
	}
	return section
}

// printTurn is the counterpart of measure.
func printTurn(w workload) {
	section, err := measure(w, "turn", turnSizes)
	check(err)
	check(json.NewEncoder(os.Stdout).Encode(section))
}

// benchmarks writes what was measured in the format of Go's benchmarks: a line per contender and repeat, with a table's
// columns as units.
func (s Section) benchmarks(b *bytes.Buffer) {
	word := strings.NewReplacer(" ", "_", "\t", "_").Replace
	for i, t := range s.Tables {
		if t.ID == "" {
			t.ID = fmt.Sprint(s.Name, i)
		}
		for _, row := range t.Rows {
			repeats := 0
			row.Cells = row.Cells[:min(len(row.Cells), len(t.Columns))] // a table may show fewer columns than were measured
			for _, cell := range row.Cells {
				repeats = max(repeats, len(cell))
			}
			for repeat := range repeats {
				fmt.Fprintf(b, "Benchmark/%s/%s/%s 1", s.Name, t.ID, word(row.Name))
				seen := map[string]int{}
				for c, cell := range row.Cells {
					unit := word(t.Columns[c].Name)
					if seen[unit]++; seen[unit] > 1 {
						unit += fmt.Sprint("#", seen[unit])
					}
					if repeat < len(cell) {
						fmt.Fprintf(b, " %v %s", cell[repeat], unit)
					}
				}
				b.WriteString("\n")
			}
		}
	}
}
