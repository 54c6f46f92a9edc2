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

// Table is a table.
type Table struct {
	ID      string // "" for none
	Title   string
	Unit    string // of the cells, unless a column has its own
	Head    string // header of the first column
	Columns []Column
	Rows    Rows
}

// Column is a column of a Table.
type Column struct {
	Name   string
	Digits int
}

// Target is a promise that is kept or broken.
type Target struct {
	Name   string
	AtMost bool // upper bound, else lower bound
	Limit  float64
	Unit   string // unit of the numbers: "×", " ms"
	Got    Sample
	Worst  bool // compare the highest repeat instead of the median
}

func atLeast(name string, limit float64, got Sample) Target {
	return Target{Name: name, Limit: limit, Unit: "×", Got: got}
}

func atMost(name string, limit float64, unit string, got Sample) Target {
	return Target{Name: name, AtMost: true, Limit: limit, Unit: unit, Got: got}
}

func neverEarly(when string, row Row) Target {
	return Target{Name: "Early deliveries " + when, AtMost: true, Worst: true, Unit: " jobs", Got: row.column(3)}
}

// Value returns the number to compare with the limit.
func (t Target) Value() float64 {
	if t.Worst {
		_, high := t.Got.Spread()
		return high
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

// Tables returns all tables, by workload.
func (r *Report) Tables() string {
	var b strings.Builder
	for _, s := range r.Sections {
		s.write(&b)
	}
	return b.String()
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
	fmt.Fprintf(b, "\n<sub>`-only %s`, %s sizes", s.Name, s.Mode)
	if s.Revision != "" {
		b.WriteString(", revision " + s.Revision)
	}
	b.WriteString(s.Measured.UTC().Format(", 2006-01-02 15:04 MST"))
	if s.Load != "" {
		b.WriteString(", load " + s.Load)
	}
	fmt.Fprintf(b, ", took %v.</sub>\n", s.Took.Round(time.Second))
}

func (t Table) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n\n", t.Title)
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
			fmt.Fprintf(b, " %s |", row.column(i).String(c.Digits))
		}
		b.WriteString("\n")
	}
}

// readReport reads an earlier run's report, if there is one.
func readReport(folder string) *Report {
	r := &Report{}
	text, err := os.ReadFile(filepath.Join(folder, "bench", "results.json"))
	if !errors.Is(err, fs.ErrNotExist) {
		check(err)
		check(json.Unmarshal(text, r))
	}
	return r
}

// save writes the pages, the charts and the numbers below the directory.
func (r *Report) save(folder string) {
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	check(enc.Encode(r))
	files := r.pages()
	files["bench/results.json"] = text.String()
	for name, text := range files {
		check(os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o755))
		check(os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}
}
