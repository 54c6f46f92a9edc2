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
	About    string // what is measured and how
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

// Markers of the part of the document that is written by hand and kept.
const (
	handBegin = "<!-- written by hand: begin -->"
	handEnd   = "<!-- written by hand: end -->"
	handEmpty = "\n\n(to be written)\n\n"
)

func handPart(document string) string {
	_, rest, found := strings.Cut(document, handBegin)
	part, _, ended := strings.Cut(rest, handEnd)
	if !found || !ended {
		return handEmpty
	}
	return part
}

const intro = `# Benchmarks

Written by ` + "`make bench`" + `, which measures everything anew, in more than an hour, on a
redis-server (and a beanstalkd and a Faktory) of its own on loopback, and writes this file, the charts beside it and
[the numbers](bench/results.json). Parts of it: ` + "`go run -C bench . -full -only push,move`" + `; a smoke run of a minute
and a half, which writes to a temporary folder: ` + "`go run -C bench . -quick`" + `; this tree and another revision in turns,
each by its own bench, which prints only: ` + "`go run -C bench . -against main -only push,idle`" + `; what the nodes of a cluster carry by the
kept numbers of ` + "`memory` and `partitions`: `go run -C bench . -simulate`" + `. The programs are in [bench/](../bench), a Go module of its
own, so that none of what is compared here reaches a user of the library.

How to read it. Within a run, everything in a table is measured in turns: one repeat of each, then the next
repeat of each, beginning with another one; where a column is a load of its own (goroutines, topics, waiting jobs), column by column. A cell is the **median** of the repeats, and in brackets the least
and the greatest. A ratio is taken repeat by repeat, and its median is what counts: so a machine that is
slow for a while slows both sides. All share one machine: the Redis, the daemon, producers and consumers; numbers
of other machines will differ, ratios less so. Every job's body is the same 56 bytes, unless said otherwise.

What is compared:

- **floor**: raw scripts and pipelines that do nothing but the Redis work, with no check of anything. The distance from one that
  does as many jobs a call is what our promises cost; what does more jobs a call can be faster than a floor of one job a call.
- **original**: what the original's clients send, one job at a time: push in MULTI, pop as RPOP (or BRPOP), HGETALL, DEL.
  The original's server is not in the tables: with more than about 20 jobs due at once it runs out of connections.
- **Delayer**: the client library of this repository, and its server with the options it has by itself.
- **asynq**, **gocraft/work**, **machinery**, **Faktory**, **beanstalkd**: other queues with delays. Where they poll, we set the polling for low latency, as
  said where it appears; that is our choice, and shorter than their defaults. asynq, gocraft/work, Faktory and beanstalkd lease their jobs, as Delayer does for a worker only, which costs
  them something. Faktory is a server between its clients and a Redis of its own.

Not compared: **rmq** v5.2.0 has no delays. **lmstfy** has, but its server could not be had where this was
measured, and a client without a server tells nothing.
`

const machineIntro = `Of the last run. The line below each section says by which command, when and at which revision of this repository it was measured;
"before it landed" is on the branch that became that revision. Where the machine's load was noted, the line has it, too.

`

// Markdown returns the document with the part written by hand.
func (r *Report) Markdown(hand string) string {
	var b strings.Builder
	b.WriteString(intro)
	b.WriteString("\n## Machine and versions\n\n" + machineIntro)
	for _, line := range append(slices.Clone(r.Machine), r.Versions...) {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	r.writeTargets(&b)
	for _, s := range r.Sections {
		s.write(&b)
	}
	b.WriteString("\n## What was tried\n\n" + handBegin + hand + handEnd + "\n")
	return b.String()
}

func (r *Report) writeTargets(b *strings.Builder) {
	b.WriteString("\n## Targets\n\nWhat Delayer promises of itself, measured. Ratios: higher is better for Delayer.\n\n" +
		"| | target | measured | spread | |\n|---|--:|--:|--:|---|\n")
	for _, s := range r.Sections {
		for _, t := range s.Targets {
			b.WriteString(t.row())
		}
	}
}

func (s Section) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n", s.Title, strings.TrimSpace(s.About))
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
		load = ", the machine's load was " + s.Load
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

// save writes the document, the charts and the numbers to the directory.
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
	document := filepath.Join(folder, "benchmarks.md")
	old, err := os.ReadFile(document)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(document, []byte(r.Markdown(handPart(string(old)))), 0o644)
}
