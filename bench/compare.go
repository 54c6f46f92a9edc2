package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// side is one of two trees to compare, with its own bench built from its own packages.
type side struct {
	name    string
	program string
}

// figure is a measured number with a Sample for each side.
type figure struct {
	at     [3]int // table, row and column: an older revision may have other names for them
	name   string
	digits int
	got    [2]Sample
}

// compare measures each workload of this tree and of another revision or directory in alternating order (A B,
// B A, A B …), so that a machine that slows down or speeds up favours neither, and prints both results.
// Workloads that the other bench lacks are skipped.
func compare(against string, pairs int, chosen []workload) error {
	sides, err := buildSides(against)
	if err != nil {
		return err
	}
	for _, w := range chosen {
		figures, err := measurePairs(w, pairs, sides)
		if len(figures) > 0 {
			printFigures(os.Stdout, w, sides, figures)
		}
		switch {
		case errors.Is(err, errNoWorkload):
			progress("%s is left out: %v", w.name, err)
		case err != nil:
			return err
		}
	}
	return nil
}

// measurePairs runs that many turns of the workload on each side and returns all figures; after an error, those of the
// pairs before it.
func measurePairs(w workload, pairs int, sides [2]side) (figures []*figure, err error) {
	for pair := range pairs {
		var sections [2]Section
		for i := range sides {
			which := (pair + i) % 2
			progress("%s, pair %d of %d: %s", w.name, pair+1, pairs, sides[which].name)
			if sections[which], err = sides[which].measure(w); err != nil {
				return figures, fmt.Errorf("%s: %w", sides[which].name, err)
			}
		}
		for which, section := range sections {
			figures = collect(figures, section, which)
		}
	}
	return figures, nil
}

// buildSides builds the bench of both trees.
func buildSides(against string) (sides [2]side, err error) {
	folder, err := newFolder()
	if err != nil {
		return sides, err
	}
	other, err := otherTree(against)
	if err != nil {
		return sides, err
	}
	sides = [2]side{{"this tree", filepath.Join(folder, "this")}, {against, filepath.Join(folder, "other")}}
	if err := sides[0].build(".."); err != nil {
		return sides, err
	}
	return sides, sides[1].build(other)
}

// build builds the tree's bench.
func (s side) build(tree string) error {
	if _, err := output("go", "build", "-C", filepath.Join(tree, "bench"), "-o", s.program, "."); err != nil {
		return fmt.Errorf("the bench of %s: %w", s.name, err)
	}
	return nil
}

// otherTree returns the directory, or checks out the revision into a temporary directory.
func otherTree(against string) (string, error) {
	if _, err := os.Stat(filepath.Join(against, "go.mod")); err == nil {
		return filepath.Abs(against)
	}
	folder, err := newFolder()
	if err != nil {
		return "", err
	}
	archive := filepath.Join(folder, "sources.tar")
	if _, err := output("git", "-C", "..", "archive", "-o", archive, against); err != nil {
		return "", fmt.Errorf("-against %s: neither a folder with a go.mod nor a revision: %w", against, err)
	}
	_, err = output("tar", "-x", "-f", archive, "-C", folder)
	return folder, err
}

// output runs a program that is killed if this one ends.
func output(args ...string) ([]byte, error) {
	cmd := exec.Command(args[0], args[1:]...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	p, err := start(cmd)
	if err != nil {
		return nil, err
	}
	if err := p.wait(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", filepath.Base(args[0]), err, errs.Bytes())
	}
	return out.Bytes(), nil
}

// errNoWorkload means that the side's bench lacks the workload.
var errNoWorkload = errors.New("its bench has no such workload")

// measure runs one turn of the workload.
func (s side) measure(w workload) (section Section, err error) {
	text, err := output(s.program, "-turn", w.name)
	if err != nil {
		if strings.Contains(err.Error(), fmt.Sprintf(noWorkload, w.name)) {
			err = errNoWorkload
		}
		return section, err
	}
	return section, json.Unmarshal(text, &section)
}

// printTurn is the counterpart of measure.
func printTurn(w workload) error {
	section, err := measure(w, "turn", turnSizes)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(section)
}

// collect adds the section's numbers to one side's figures.
func collect(figures []*figure, section Section, which int) []*figure {
	known := map[[3]int]*figure{}
	for _, f := range figures {
		known[f.at] = f
	}
	for i, t := range section.Tables {
		for k, row := range t.Rows {
			for c, column := range t.Columns {
				if c >= len(row.Cells) || len(row.Cells[c]) == 0 {
					continue
				}
				at := [3]int{i, k, c}
				if known[at] == nil {
					known[at] = &figure{at: at, digits: column.Digits}
					figures = append(figures, known[at])
				}
				if which == 0 || known[at].name == "" {
					known[at].name = fmt.Sprintf("%s: %s\t%s", t.Title, row.Name, column.Name)
				}
				known[at].got[which] = append(known[at].got[which], row.Cells[c].Median())
			}
		}
	}
	return figures
}

func printFigures(to io.Writer, w workload, sides [2]side, figures []*figure) {
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	defer out.Flush()
	fmt.Fprintf(out, "\n%s\t\t%s\t%s\tratio, pair by pair\n", w.name, sides[0].name, sides[1].name)
	for _, f := range figures {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", f.name,
			f.got[0].String(f.digits), f.got[1].String(f.digits), f.got[0].Over(f.got[1]).String(2))
	}
}
