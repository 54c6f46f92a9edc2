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
	name, chinese string
	table, column string
	digits        int
	row           string // of Delayer
	original      string // row of the original's clients; "" if there is none
}

const ofOriginal = "original's clients, Delayer's server"

var (
	pushed   = summaryColumn{"push, jobs/s", "推送，个/秒", "push", "32 goroutines", 0, "Delayer", "original (MULTI)"}
	burst    = summaryColumn{"burst of 20,000, jobs/s", "20,000 个同时到期，个/秒", "burst", "jobs/s", 0, "Delayer", ofOriginal}
	handled  = summaryColumn{"handled and acknowledged, jobs/s", "处理并确认，个/秒", "worker", "jobs/s", 0, "Delayer, worker", ""}
	lateness = []summaryColumn{
		{"late, p50, ms", "延迟误差 p50，毫秒", "steady-500", "p50, ms", 1, "Delayer", ofOriginal},
		{"late, p99, ms", "延迟误差 p99，毫秒", "steady-500", "p99, ms", 1, "Delayer", ofOriginal},
	}
	cost   = summaryColumn{"server's CPU, µs per job", "服务器 CPU，微秒/任务", "cpu", "sum", 0, "Delayer, 32 goroutines", "original's clients, 32 goroutines; moved by a plain pipeline"}
	memory = summaryColumn{"memory per job, bytes", "内存，字节/任务", "memory", "body of 56 bytes", 0, "Delayer", ""}
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

// page is the first page in one language: texts with a table, a list of missed targets and the machine between them.
type page struct {
	file                             string
	intro, method, met, missed, rest string // met has the numbers of met and of all targets
	columnName                       func(summaryColumn) string
	targetHead                       string
}

var summaryPages = []page{{
	file: "benchmarks.md",
	intro: `# Benchmarks

[中文](benchmarks.zh-CN.md)

` + "`make bench`" + ` compares Delayer with other queues, the original's clients and raw Redis scripts, in more than an hour, and writes this page,
[all tables](benchmark-tables.md), the charts and [the numbers](bench/results.json). Everything runs on one machine, loopback only: the queue's server, producers and
consumers. Rates on your machines will differ; ratios differ less. Every job has a body of 56 bytes. Cells are medians.

`,
	method: `
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

`,
	met:    "## Targets\n\nDelayer meets %d of its %d [targets](benchmark-tables.md#targets).",
	missed: " It misses:\n\n",
	rest: `
## What was tried

The forms of the move, of push, take and finish, and of reads for operators that were measured, and which were kept or dropped, are in the decisions on
[the move](adr/0004-moving-due-jobs.md), [push, take and finish](adr/0005-shared-round-trips.md) and [reads for operators](adr/0013-reads-for-operators.md).

## Run it

- ` + "`make bench`" + `: everything. ` + "`go run -C bench . -full -only push,move`" + `: some workloads; the other results are kept. Both begin once the machine is quiet.
- ` + "`go run -C bench . -quick`" + `: a smoke run of two to three minutes, into a temporary folder.
- ` + "`go run -C bench . -against main -only push,idle`" + `: this tree and another revision in turns, each built from its own sources. Prints only.
- ` + "`go run -C bench . -simulate`" + `: what the nodes of a cluster would carry, from the kept results of ` + "`memory` and `partitions`" + `.

The programs are in [bench/](../bench), a module of its own, so that a user of the library downloads none of what is compared here.

## Machine and versions

Of the last run. [All tables](benchmark-tables.md) have the command, revision and date of each measurement.

`,
	columnName: func(c summaryColumn) string { return c.name },
	targetHead: "| | target | measured | spread | |",
}, {
	file: "benchmarks.zh-CN.md",
	intro: `# 性能

[English](benchmarks.md)

` + "`make bench`" + ` 把 Delayer 与其他队列、原版客户端以及直接操作 Redis 的脚本相比较，耗时一个多小时，并写出本页、[全部表格](benchmark-tables.md)（英文）、图表和[原始数据](bench/results.json)。
队列的服务器、生产者和消费者都在同一台机器上，只走本机回环。在你的机器上速率会不同，比值的差别较小。每个任务的内容为 56 字节。表中为中位数。

`,
	method: `
- **推送**：32 个 goroutine 推送延迟任务，每次调用一个。
- **同时到期**：20,000 个任务在同一秒到期，由 8 个消费者取走。
- **处理并确认**：同样的任务由 8 个 worker 处理，处理函数什么也不做。beanstalkd 用 reserve 和 delete。
- **延迟误差**：每秒 500 个任务时，从到期到投递的时间。
- **服务器 CPU**：Redis、beanstalkd 或 Faktory 及其 Redis 在一个任务整个生命周期中使用的 CPU 时间。
- **original**：原版 Delayer 的客户端，配合我们的服务端。原版服务端在约 20 个以上任务同时到期时会耗尽连接。
- 其他队列靠轮询发现到期任务，这里都设为它们允许的最短间隔，比默认值短。asynq、gocraft/work、Faktory 和 beanstalkd 对每个任务都加租约，这有开销；Delayer 只为 worker 这样做。
- 未测量：rmq v5.2.0 没有延迟功能；lmstfy 的服务端在这台机器上无法获得。

![吞吐量](bench/throughput.svg)

![延迟误差](bench/lateness.svg)

`,
	met:    "## 目标\n\nDelayer 达到了 %d 个目标，[目标](benchmark-tables.md#targets)共 %d 个。",
	missed: "未达到的是（英文）：\n\n",
	rest: `
## 尝试过的方案

移动、推送、取任务、结束任务以及运维读取的各种实现，哪些测量后保留、哪些放弃，见设计决策（英文）：
[移动](adr/0004-moving-due-jobs.md)、[推送、取任务和结束任务](adr/0005-shared-round-trips.md)、[运维读取](adr/0013-reads-for-operators.md)。

## 运行

- ` + "`make bench`" + `：全部。` + "`go run -C bench . -full -only push,move`" + `：只测一部分，其余结果保留。两者都等机器空闲后才开始。
- ` + "`go run -C bench . -quick`" + `：两三分钟的冒烟测试，写到临时目录。
- ` + "`go run -C bench . -against main -only push,idle`" + `：与另一个版本轮流测量，各自从自己的源码构建，只打印结果。
- ` + "`go run -C bench . -simulate`" + `：根据 ` + "`memory` 和 `partitions`" + ` 的结果，估算集群的节点能承载多少。

这些程序在 [bench/](../bench) 中，是单独的模块，因此库的使用者不会下载任何用来比较的东西。

## 机器和版本

最近一次运行时的情况。每项测量的命令、版本和日期见[全部表格](benchmark-tables.md)。

`,
	columnName: func(c summaryColumn) string { return c.chinese },
	targetHead: "| | 目标 | 测得 | 范围 | |",
}}

// write returns the page for the report.
func (p page) write(r *Report) string {
	var b strings.Builder
	b.WriteString(p.intro + "|  |")
	for _, c := range summaryColumns {
		fmt.Fprintf(&b, " %s |", p.columnName(c))
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
	b.WriteString(p.method)
	p.writeMissed(&b, r.targets())
	b.WriteString(p.rest)
	for _, line := range slices.Concat(r.Machine, r.Versions) {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	return b.String()
}

// writeMissed says how many targets are met, and lists the rest.
func (p page) writeMissed(b *strings.Builder, all []Target) {
	missed := slices.DeleteFunc(slices.Clone(all), Target.Met)
	fmt.Fprintf(b, p.met, len(all)-len(missed), len(all))
	if len(missed) == 0 {
		b.WriteString("\n")
		return
	}
	b.WriteString(p.missed + p.targetHead + "\n|---|--:|--:|--:|---|\n")
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
