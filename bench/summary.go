package main

import (
	_ "embed"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// texts says what each workload measures and how: a heading with the workload's name, then its text.
//
//go:embed texts.md
var texts string

// about returns the text of a workload.
func about(name string) string {
	_, text, _ := strings.Cut("\n"+texts, "\n## "+name+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return strings.TrimSpace(text)
}

// summaryColumn is a column of the first page's table, read from another table of the report.
type summaryColumn struct {
	name          string
	table, column string
	digits        int
	row           string // of Delayer
	original      string // row of the original's clients; "" if there is none
}

const ofOriginal = "original's clients, Delayer's server"

var (
	pushed   = summaryColumn{"push, jobs/s", "push", "32 goroutines", 0, "Delayer", "original (MULTI)"}
	burst    = summaryColumn{"burst of 20,000, jobs/s", "burst", "jobs/s", 0, "Delayer", ofOriginal}
	handled  = summaryColumn{"handled and acknowledged, jobs/s", "worker", "jobs/s", 0, "Delayer, worker", ""}
	lateness = []summaryColumn{
		{"late, p50, ms", "steady-500", "p50, ms", 1, "Delayer", ofOriginal},
		{"late, p99, ms", "steady-500", "p99, ms", 1, "Delayer", ofOriginal},
	}
	cost   = summaryColumn{"server's CPU, µs per job", "cpu", "sum", 0, "Delayer, 32 goroutines", "original's clients, 32 goroutines; moved by a plain pipeline"}
	memory = summaryColumn{"memory per job, bytes", "memory", "body of 56 bytes", 0, "Delayer", ""}
)

var (
	summaryColumns = slices.Concat([]summaryColumn{pushed, burst, handled}, lateness, []summaryColumn{cost, memory})
	summaryQueues  = []string{"Delayer", "original", "beanstalkd", "Faktory", "asynq", "gocraft/work", "machinery"}
)

// of returns what was measured of that queue; empty if nothing was.
func (c summaryColumn) of(r *Report, queue string) Sample {
	switch queue {
	case "Delayer":
		queue = c.row
	case "original":
		queue = c.original
	}
	t, _ := r.table(c.table)
	column := slices.IndexFunc(t.Columns, func(of Column) bool { return of.Name == c.column })
	row := slices.IndexFunc(t.Rows, func(of Row) bool { return of.Name == queue })
	if row < 0 || column < 0 || column >= len(t.Rows[row].Cells) {
		return nil
	}
	return t.Rows[row].Cells[column]
}

const summaryIntro = `# Benchmarks

` + "`make bench`" + ` compares Delayer with other queues, the original's clients and raw Redis scripts, in more than an hour, and writes this page,
[all tables](benchmark-tables.md), the charts and [the numbers](bench/results.json). Everything runs on one machine, loopback only: the queue's server, producers and
consumers. Rates on your machines will differ; ratios differ less. Every job has a body of 56 bytes. Cells are medians.

`

const summaryMethod = `
- **push**: 32 goroutines push jobs with a delay, one per call.
- **burst**: 20,000 jobs fall due at the same second and 8 consumers take them.
- **handled and acknowledged**: the same burst, by 8 workers whose handlers do nothing. beanstalkd reserves and deletes.
- **late**: time from due to delivery at 500 jobs per second.
- **server's CPU**: CPU time of Redis, beanstalkd or Faktory with its Redis, for a job's whole life.
- **original**: the clients of the original Delayer, with our server. The original's own server runs out of connections when more than about 20 jobs fall due at once.
- The other queues poll for due jobs. They were set to poll as often as they can, more often than by default. asynq, gocraft/work, Faktory and beanstalkd lease
  every job, which costs them something; Delayer does so for workers only.
- Not measured: rmq v5.2.0 has no delays, and lmstfy's server could not be had on this machine.

![Throughput](bench/throughput.svg)

![Lateness](bench/lateness.svg)

`

// summary returns the first page.
func (r *Report) summary() string {
	var b strings.Builder
	b.WriteString(summaryIntro + "|  |")
	for _, c := range summaryColumns {
		fmt.Fprintf(&b, " %s |", c.name)
	}
	b.WriteString("\n|---|" + strings.Repeat("--:|", len(summaryColumns)) + "\n")
	for _, queue := range summaryQueues {
		fmt.Fprintf(&b, "| %s |", queue)
		for _, c := range summaryColumns {
			text := "–"
			if cell := c.of(r, queue); len(cell) > 0 {
				text = number(cell.Median(), c.digits)
			}
			fmt.Fprintf(&b, " %s |", text)
		}
		b.WriteString("\n")
	}
	b.WriteString(summaryMethod)
	r.writeMissed(&b)
	b.WriteString(`
## What was tried

The forms of the move, of push, take and finish, and of reads for operators that were measured, and which were kept or dropped, are in the decisions on
[the move](adr/0004-moving-due-jobs.md), [push, take and finish](adr/0005-shared-round-trips.md) and [reads for operators](adr/0013-reads-for-operators.md).

## Run it

- ` + "`make bench`" + `: everything. ` + "`go run -C bench . -full -only push,move`" + `: some workloads; the other results are kept.
- ` + "`go run -C bench . -quick`" + `: a smoke run of a minute and a half, into a temporary folder.
- ` + "`go run -C bench . -against main -only push,idle`" + `: this tree and another revision in turns, each built from its own sources. Prints only.
- ` + "`go run -C bench . -simulate`" + `: what the nodes of a cluster would carry, from the kept results of ` + "`memory` and `partitions`" + `.

The programs are in [bench/](../bench), a module of its own, so that a user of the library downloads none of what is compared here.

## Machine and versions

Of the last run. [All tables](benchmark-tables.md) have the command, revision and date of each measurement.

`)
	for _, line := range slices.Concat(r.Machine, r.Versions) {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	return b.String()
}

// writeMissed says how many targets are met, and lists the rest.
func (r *Report) writeMissed(b *strings.Builder) {
	all := r.targets()
	missed := slices.DeleteFunc(slices.Clone(all), Target.Met)
	fmt.Fprintf(b, "## Targets\n\nDelayer meets %d of its %d [targets](benchmark-tables.md#targets).", len(all)-len(missed), len(all))
	if len(missed) == 0 {
		b.WriteString("\n")
		return
	}
	b.WriteString(" It misses:\n\n| | target | measured | spread | |\n|---|--:|--:|--:|---|\n")
	for _, t := range missed {
		b.WriteString(t.row())
	}
}

// drawSummary draws the first page's charts.
func (r *Report) drawSummary(folder string) error {
	rates := Table{Title: "Throughput", Unit: "jobs/s"}
	for _, queue := range summaryQueues {
		rates.Columns = append(rates.Columns, Column{Name: queue})
	}
	for _, c := range []summaryColumn{pushed, burst, handled} {
		row := Row{Name: strings.TrimSuffix(c.name, ", jobs/s")}
		for _, queue := range summaryQueues {
			row.Cells = append(row.Cells, c.of(r, queue))
		}
		rates.Rows = append(rates.Rows, row)
	}
	if err := rates.draw(filepath.Join(folder, "throughput.svg")); err != nil {
		return fmt.Errorf("chart of throughput: %w", err)
	}
	if err := r.drawLateness(filepath.Join(folder, "lateness.svg")); err != nil {
		return fmt.Errorf("chart of lateness: %w", err)
	}
	return nil
}

// drawLateness draws dots on a logarithmic axis: the queues differ by a factor of a thousand.
func (r *Report) drawLateness(file string) error {
	p := newPlot("Lateness at 500 jobs per second", "ms, logarithmic")
	p.NominalX(summaryQueues...)
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, commaTicks{plot.LogTicks{Prec: -1}}
	p.Y.Min, p.Y.Max = 0.1, 10_000
	for i, c := range lateness {
		var points plotter.XYs
		for x, queue := range summaryQueues {
			if cell := c.of(r, queue); len(cell) > 0 && cell.Median() > 0 {
				points = append(points, plotter.XY{X: float64(x), Y: cell.Median()})
			}
		}
		if len(points) == 0 {
			continue
		}
		dots, err := plotter.NewScatter(points)
		if err != nil {
			return err
		}
		dots.Color, dots.Radius, dots.Shape = palette[i], vg.Points(5), draw.CircleGlyph{}
		p.Add(dots)
		p.Legend.Add([]string{"median", "p99"}[i], dots)
	}
	p.X.Min, p.X.Max = -0.6, float64(len(summaryQueues))-0.4
	return save(p, file)
}
