// Command bench measures Delayer against the raw Redis work that it does, against the original's commands and
// against other queues, and writes docs/benchmarks.md with its charts, tables.md and targets.md.
//
// A workload measures one thing and returns a Section; contenders run in turns, so that a change of the
// machine's speed affects all alike; a Report keeps everything as JSON, so that one workload can be repeated
// alone.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/load"
)

// Run is shared by the workloads.
type Run struct {
	Redis *Redis
	sizes
	notes    []string
	failures []error
}

// note adds a remark on the current workload for the reader.
func (r *Run) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(r.notes, text) {
		r.notes = append(r.notes, text)
		progress("  note: %s", text)
	}
}

// workload measures one thing. Its texts are in the Section it returns.
type workload struct {
	name string
	run  func(context.Context, *Run) Section
}

var workloads = []workload{
	{"push", benchPush},
	{"take", benchTake},
	{"burst", benchBurst},
	{"steady", benchSteady},
	{"crowded", benchCrowded},
	{"fanout", benchFanout},
	{"worker", benchWorker},
	{"http", benchHTTP},
	{"delayqueue", benchDelayQueue},
	{"move", benchMove},
	{"bystander", benchBystander},
	{"catchup", benchCatchUp},
	{"cpu", benchCPU},
	{"memory", benchMemory},
	{"idle", benchIdle},
	{"partitions", benchPartitions},
	{"topics", benchTopics},
	{"features", benchFeatures},
	{"soak", benchSoak},
}

func names() []string {
	list := make([]string, len(workloads))
	for i, w := range workloads {
		list[i] = w.name
	}
	return list
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05 ")+format+"\n", args...)
}

func main() {
	err := own()
	if err == nil {
		if err = attempt(command); err != nil {
			time.Sleep(100 * time.Millisecond) // if a server has ended by itself, which explains it, that aborts
		}
		disown()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// command executes the command line.
func command() {
	quick := flag.Bool("quick", false, "small sizes, one repeat: a smoke run of two to three minutes, into a temporary folder")
	full := flag.Bool("full", false, "everything, with bursts and pools of 1,000,000 jobs and more")
	only := flag.String("only", "", "run these workloads only, and keep the others' results: "+strings.Join(names(), ","))
	render := flag.Bool("render", false, "run nothing: write documents and charts from the kept numbers")
	out := flag.String("out", "", "project to write to (default ..; with -quick a temporary folder)")
	text := flag.String("text", "", "file to write what was measured to as well, in the format of Go's benchmarks, for benchstat")
	against := flag.String("against", "", "measure Delayer in turns with another revision, or with the tree in this folder, each by its own bench, and let benchstat compare; nothing is written")
	pairs := flag.Int("pairs", 8, "with -against: how often each of the two is measured")
	turn := flag.String("turn", "", "for -against: run this workload's turn and print it as JSON")
	flag.StringVar(&delayQueuePath, "delay-queue", "", "for -only delayqueue, which is left out without it: the program of the real delay-queue server")
	flag.DurationVar(&soakFor, "soak", 0, "for -only soak, which is left out without it: how long; -quick takes 30 s")
	work := flag.String("work", "", "for -only soak: be a worker of this Redis")
	serve := flag.String("serve", "", "for -only http: be this server of delay-queue's API, on the address and the Redis that follow")
	flag.CommandLine.Init("bench", flag.ContinueOnError) // a call of os.Exit would leave the temporary directory
	if err := flag.CommandLine.Parse(os.Args[1:]); errors.Is(err, flag.ErrHelp) {
		return
	} else {
		check(err)
	}

	mode, s, folder := "normal", normalSizes, ".."
	switch {
	case *quick:
		mode, s, folder = "quick", quickSizes, filepath.Join(os.TempDir(), "delayer-bench")
		soakFor = cmp.Or(soakFor, 30*time.Second)
	case *full:
		mode, s = "full", fullSizes
	}
	chosen := slices.DeleteFunc(slices.Clone(workloads), func(w workload) bool {
		return *render || w.name == "delayqueue" && delayQueuePath == "" && *against == "" || w.name == "soak" && soakFor == 0
	})
	if names := *only + *turn; names != "" {
		chosen = must(choose(names))
	}
	switch {
	case *work != "":
		check(workSoak(*work))
	case *serve != "":
		check(serveAPI(*serve, flag.Arg(0), flag.Arg(1)))
	case *turn != "":
		printTurn(chosen[0])
	case *against != "" && (*quick || *full || *render || *out+*text != "" || *pairs < 1):
		check(errors.New("-against goes with -only and with a -pairs of 1 or more, and with nothing else"))
	case *against != "":
		compare(*against, *pairs, chosen)
	default:
		bench(mode, s, cmp.Or(*out, folder), *text, chosen)
	}
}

// noWorkload is the format of choose's error. Programs of other revisions recognize a missing workload by it.
const noWorkload = "there is no workload %q"

// choose returns the workloads of a comma-separated list in our order.
func choose(list string) ([]workload, error) {
	wanted := strings.Split(list, ",")
	for _, name := range wanted {
		if !slices.Contains(names(), name) {
			return nil, fmt.Errorf(noWorkload+": there is %s", name, strings.Join(names(), ", "))
		}
	}
	return slices.DeleteFunc(slices.Clone(workloads), func(w workload) bool { return !slices.Contains(wanted, w.name) }), nil
}

// bench runs the chosen workloads and saves after each.
func bench(mode string, s sizes, folder, file string, chosen []workload) {
	report := readReport(folder)
	if len(chosen) > 0 {
		if mode != "quick" {
			progress("waiting for a load below %.1f, for up to %v", quietLoad, longestWait)
			check(awaitQuiet(load.Avg, time.Second, longestWait))
		}
		report.Machine, report.Versions = machine(), withKept(versions(), report.Versions)
	}
	var failures []error
	var text bytes.Buffer
	for _, w := range chosen {
		section, err := measure(w, mode, s)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", w.name, err))
		}
		if len(section.Tables) == 0 {
			progress("%s failed: %v", w.name, err)
			continue
		}
		report.add(section, names())
		report.save(folder)
		if section.benchmarks(&text); file != "" {
			check(os.WriteFile(file, text.Bytes(), 0o644))
		}
	}
	report.save(folder)
	progress("written: %s", filepath.Join(folder, "docs", "benchmarks.md"))
	for _, t := range report.AllTargets() {
		fmt.Print(t.row())
	}
	check(errors.Join(failures...))
}

// measure runs a workload on its own Redis. An error may concern single contenders, which the section then
// lacks; a workload that failed as a whole has no tables.
func measure(w workload, mode string, s sizes) (section Section, err error) {
	progress("%s", w.name)
	started, before := time.Now(), loadNow()
	run := &Run{sizes: s}
	err = attempt(func() {
		run.Redis = startRedis()
		defer run.Redis.stop()
		section = w.run(context.Background(), run)
	})
	section.Revision, section.Load = revision(), before
	section.Name, section.Mode, section.Measured, section.Took = w.name, mode, started, time.Since(started)
	section.Notes = append(section.Notes, run.notes...)
	return section, errors.Join(append(run.failures, err)...)
}
