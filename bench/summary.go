package main

import (
	"embed"
	"path"
	"slices"
	"strings"
	"text/template"
)

// pageFiles are the pages, with what was measured left open, and workloads.md, which says what each workload measures
// and how: a heading with the workload's name, then its text.
//
//go:embed pages/*.md
var pageFiles embed.FS

// about returns the text of a workload.
func about(name string) string {
	_, text, _ := strings.Cut("\n"+string(must(pageFiles.ReadFile("pages/workloads.md"))), "\n## "+name+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return strings.TrimSpace(text)
}

// summaryColumn is a column of the first page's table, read from another table of the report.
type summaryColumn struct {
	name          string // in the charts
	table, column string
	digits        int
	row           string // of Delayer
	original      string // row of the original's clients; "" if there is none
}

var summaryColumns = []summaryColumn{
	{"push", "push", "32 goroutines", 0, "Delayer", "original (MULTI)"},
	{"burst of 20,000", "burst", "jobs/s", 0, "Delayer", ofOriginal},
	{"handled and acknowledged", "worker", "jobs/s", 0, ofWorker, ""},
	{"median", "steady-500", "p50, ms", 1, "Delayer", ofOriginal},
	{"p99", "steady-500", "p99, ms", 1, "Delayer", ofOriginal},
	{"", "cpu", "sum", 0, "Delayer, 32 goroutines", ofOriginals},
	{"", "memory", "body of 56 bytes", 0, "Delayer", ""},
}

var summaryQueues = []string{"Delayer", "original", "beanstalkd", "Faktory", "asynq"}

// of returns what was measured of that queue; empty if nothing was.
func (c summaryColumn) of(r *Report, queue string) Sample {
	switch queue {
	case "Delayer":
		queue = c.row
	case "original":
		queue = c.original
	}
	for _, s := range r.Sections {
		for _, t := range s.Tables {
			if column := slices.IndexFunc(t.Columns, func(of Column) bool { return of.Name == c.column }); t.ID == c.table && column >= 0 {
				return t.Rows.of(queue).column(column)
			}
		}
	}
	return nil
}

// Queues returns the rows of the first page's table.
func (r *Report) Queues() string {
	var b strings.Builder
	for _, queue := range summaryQueues {
		b.WriteString("| " + queue + " |")
		for _, c := range summaryColumns {
			text := "–"
			if cell := c.of(r, queue); len(cell) > 0 {
				text = number(cell.Median(), c.digits)
			}
			b.WriteString(" " + text + " |")
		}
		b.WriteString("\n")
	}
	return b.String()
}

// AllTargets returns those of all workloads.
func (r *Report) AllTargets() (list []Target) {
	for _, s := range r.Sections {
		list = append(list, s.Targets...)
	}
	return list
}

// Targets returns the rows of those that are met, or missed.
func (r *Report) Targets(met bool) (rows []string) {
	for _, t := range r.AllTargets() {
		if t.Met() == met {
			rows = append(rows, t.row())
		}
	}
	return rows
}

// pages returns the documents and charts by their paths in the project: what users read is in docs, the rest is next to the programs.
func (r *Report) pages() map[string]string {
	rates := chart{title: "Throughput", unit: "jobs/s", groups: summaryQueues}
	late := chart{title: "Lateness at 500 jobs per second", unit: "ms, logarithmic", groups: summaryQueues, logarithmic: true}
	for i, c := range summaryColumns[:5] {
		to := &rates
		if i >= 3 {
			to = &late
		}
		var values []float64
		for _, queue := range summaryQueues {
			values = append(values, c.of(r, queue).Median())
		}
		to.series, to.values = append(to.series, c.name), append(to.values, values)
	}
	all := map[string]string{"docs/bench/throughput.svg": rates.svg(), "docs/bench/lateness.svg": late.svg()}
	for _, t := range must(template.ParseFS(pageFiles, "pages/*.md")).Templates() {
		if t.Name() != "workloads.md" {
			var b strings.Builder
			check(t.Execute(&b, r))
			folder := "bench"
			if strings.HasPrefix(t.Name(), "benchmarks.") {
				folder = "docs"
			}
			all[path.Join(folder, t.Name())] = b.String()
		}
	}
	return all
}
