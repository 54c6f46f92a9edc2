package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Report has all measurements. It is stored as JSON next to the document, so that one workload can be
// repeated alone.
type Report struct {
	Machine  []string // one line each
	Versions []string
	Sections []Section
}

// Section is the result of one workload.
type Section struct {
	Name     string // as on the command line
	Title    string
	Mode     string // quick, normal or full
	Revision string // of the sources, by git; "" if unknown
	Load     string `json:",omitempty"` // of the machine at the start; "" if unknown
	Measured time.Time
	Took     time.Duration
	Tables   []Table
	Targets  []Target
	Notes    []string
}

// Table is a table, and a chart if Chart is set.
type Table struct {
	ID      string // name of the chart's file
	Title   string
	Unit    string // of the cells, unless a column has its own
	Head    string // header of the first column
	Columns []Column
	Rows    []Row
	Chart   ChartKind
	Drawn   int // number of columns in the chart; 0 for all
}

// ChartKind is how a table is drawn.
type ChartKind string

const (
	noChart ChartKind = ""
	bars    ChartKind = "bars"  // a group of bars per column
	lines   ChartKind = "lines" // a line per row over the columns' X, on a logarithmic axis
)

// Column is a column of a Table.
type Column struct {
	Name   string
	Digits int
	X      float64 // position on the axis of a chart with lines
}

// Row is a row of a Table.
type Row struct {
	Name  string
	Cells []Sample
}

// Target is a promise that is kept or broken.
type Target struct {
	Name   string
	AtMost bool // upper bound, else lower bound
	Limit  float64
	Unit   string // unit of the numbers: "×", " ms"
	Got    Sample
	Worst  bool // compare the worst repeat instead of the median
}

// Value returns the number to compare with the limit.
func (t Target) Value() float64 {
	if t.Worst {
		low, high := t.Got.Spread()
		if t.AtMost {
			return high
		}
		return low
	}
	return t.Got.Median()
}

// Met reports whether the promise is kept; false if it was not measured.
func (t Target) Met() bool {
	if t.AtMost {
		return t.Value() <= t.Limit
	}
	return t.Value() >= t.Limit
}

func (t Target) row() string {
	if len(t.Got) == 0 {
		return fmt.Sprintf("| %s | %s | – | – | not measured |\n", t.Name, t.limit())
	}
	verdict := "**missed**"
	if t.Met() {
		verdict = "met"
	}
	low, high := t.Got.Spread()
	return fmt.Sprintf("| %s | %s | %s%s | %s–%s | %s |\n", t.Name, t.limit(),
		number(t.Value(), 2), t.Unit, number(low, 2), number(high, 2), verdict)
}

func (t Target) limit() string {
	sign := "≥"
	if t.AtMost {
		sign = "≤"
	}
	return fmt.Sprintf("%s %s%s", sign, number(t.Limit, 2), t.Unit)
}

// add replaces or adds the section and sorts all by names, with unknown ones last.
func (r *Report) add(s Section, names []string) {
	r.Sections = append(slices.DeleteFunc(r.Sections, func(old Section) bool { return old.Name == s.Name }), s)
	place := func(s Section) int {
		if i := slices.Index(names, s.Name); i >= 0 {
			return i
		}
		return len(names)
	}
	slices.SortStableFunc(r.Sections, func(a, b Section) int { return place(a) - place(b) })
}

const tablesIntro = `# Benchmark tables

Every table of ` + "`make bench`" + `. The [summary](benchmarks.md) says what is compared and on which machine.

A cell is the median of the repeats, with the lowest and the highest in brackets. All contenders of a table take turns, so a slow moment of the machine
hits all of them. A ratio is the median of the ratios of each turn. The line below a section names its command, its revision and its date.
`

// tables returns the page with all tables.
func (r *Report) tables() string {
	var b strings.Builder
	b.WriteString(tablesIntro)
	b.WriteString("\n## Targets\n\nA ratio above 1 is good for a rate and bad for a cost.\n\n| | target | measured | spread | |\n|---|--:|--:|--:|---|\n")
	for _, t := range r.targets() {
		b.WriteString(t.row())
	}
	for _, s := range r.Sections {
		s.write(&b)
	}
	return b.String()
}

func (r *Report) targets() (list []Target) {
	for _, s := range r.Sections {
		list = append(list, s.Targets...)
	}
	return list
}

func (s Section) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", s.Title, about(s.Name))
	for _, t := range s.Tables {
		t.write(b)
	}
	if len(s.Notes) > 0 {
		b.WriteString("\n")
	}
	for _, n := range s.Notes {
		fmt.Fprintf(b, "- %s\n", n)
	}
	revision := ""
	if s.Revision != "" {
		revision = ", revision " + s.Revision
	}
	load := ""
	if s.Load != "" {
		load = ", load " + s.Load
	}
	fmt.Fprintf(b, "\n<sub>`-only %s`, %s sizes%s, %s%s, took %v.</sub>\n", s.Name, s.Mode, revision, s.Measured.UTC().Format("2006-01-02 15:04 MST"), load, s.Took.Round(time.Second))
}

func (t Table) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n\n", t.Title)
	if t.Chart != noChart {
		fmt.Fprintf(b, "![%s](bench/%s.svg)\n\n", t.Title, t.ID)
	}
	if t.Unit != "" {
		fmt.Fprintf(b, "Unit: %s.\n\n", t.Unit)
	}
	fmt.Fprintf(b, "| %s |", t.Head)
	for _, c := range t.Columns {
		fmt.Fprintf(b, " %s |", c.Name)
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(t.Columns)) + "\n")
	for _, row := range t.Rows {
		fmt.Fprintf(b, "| %s |", row.Name)
		for i, c := range t.Columns {
			cell := Sample(nil)
			if i < len(row.Cells) {
				cell = row.Cells[i]
			}
			fmt.Fprintf(b, " %s |", cell.String(c.Digits))
		}
		b.WriteString("\n")
	}
}

// pages returns the documents by their file names.
func (r *Report) pages() map[string]string {
	all := map[string]string{"benchmark-tables.md": r.tables()}
	for _, p := range summaryPages {
		all[p.file] = p.write(r)
	}
	return all
}

// table finds a table by its ID.
func (r *Report) table(id string) (Table, bool) {
	for _, s := range r.Sections {
		for _, t := range s.Tables {
			if t.ID == id {
				return t, true
			}
		}
	}
	return Table{}, false
}

// readReport reads an earlier run's report, if there is one.
func readReport(folder string) (*Report, error) {
	text, err := os.ReadFile(filepath.Join(folder, "bench", "results.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return &Report{}, nil
	}
	if err != nil {
		return nil, err
	}
	r := &Report{}
	return r, json.Unmarshal(text, r)
}

// save writes the pages, the charts and the numbers to the directory.
func (r *Report) save(folder string) error {
	if err := os.MkdirAll(filepath.Join(folder, "bench"), 0o755); err != nil {
		return err
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(r); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "bench", "results.json"), text.Bytes(), 0o644); err != nil {
		return err
	}
	for _, s := range r.Sections {
		for _, t := range s.Tables {
			if t.Chart == noChart {
				continue
			}
			if err := t.draw(filepath.Join(folder, "bench", t.ID+".svg")); err != nil {
				return fmt.Errorf("chart %s: %w", t.ID, err)
			}
		}
	}
	if err := r.drawSummary(filepath.Join(folder, "bench")); err != nil {
		return err
	}
	for name, text := range r.pages() {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
