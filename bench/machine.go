package main

import (
	"fmt"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"
)

// machine describes this machine as far as possible.
func machine() []string {
	about := fmt.Sprintf("%s, %d cores, %s", runtime.GOARCH, runtime.NumCPU(), runtime.GOOS)
	if processors, err := cpu.Info(); err == nil && len(processors) > 0 {
		about = strings.Replace(about, runtime.GOARCH, processors[0].ModelName, 1)
	}
	if kernel, err := host.KernelVersion(); err == nil {
		about += " " + kernel
	}
	if memory, err := mem.VirtualMemory(); err == nil {
		about += fmt.Sprintf(", %d GB of memory", (memory.Total+1<<29)>>30)
	}
	return []string{about}
}

// loadNow is the number of runnable processes according to the system; "" if unknown.
func loadNow() string {
	average, err := load.Avg()
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%.1f", average.Load1)
}

// quietLoad is the load of the last minute below which nothing else is at work here, and longestWait how long to wait for it.
const (
	quietLoad   = 0.5
	longestWait = 15 * time.Minute
)

// awaitQuiet waits until the machine is quiet. A run whose result is kept must have it for itself. A system that does not
// tell its load counts as quiet.
func awaitQuiet(loads func() (*load.AvgStat, error), every, longest time.Duration) error {
	for deadline := time.Now().Add(longest); ; time.Sleep(every) {
		now, err := loads()
		switch {
		case err != nil || now.Load1 < quietLoad:
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("nothing was measured: the load is %.1f after %v, want less than %.1f; stop what else runs here", now.Load1, longest, quietLoad)
		}
	}
}

// bytesPerJob is an upper bound for a seeded job.
const bytesPerJob = 450

// roomFor reports whether that many more jobs fit into memory, and adds a note if not.
func (r *Run) roomFor(jobs int) bool {
	memory, err := mem.VirtualMemory()
	if err != nil || uint64(jobs)*bytesPerJob*3/2 < memory.Available {
		return true
	}
	r.note("%s waiting jobs more were left out: too little memory.", count(jobs))
	return false
}

func firstLine(program string, args ...string) string {
	out, _ := exec.Command(program, args...).CombinedOutput()
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

// revision returns the commit of the sources, with "-dirty" if measured files differ from it.
func revision() string {
	out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return ""
	}
	name := strings.TrimSpace(string(out))
	changes, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--", "../client", "../server", "../internal").Output()
	if err != nil || len(changes) > 0 {
		name += "-dirty"
	}
	return name
}

// versions lists the versions of what is compared.
func versions() []string {
	lines := []string{
		"Go " + strings.TrimPrefix(runtime.Version(), "go"),
		firstLine("redis-server", "--version"),
		firstLine("beanstalkd", "-v"),
	}
	if words := strings.Fields(lines[1]); len(words) > 2 {
		lines[1] = "Redis " + strings.TrimPrefix(words[2], "v=") + " (no persistence, no limit of memory)"
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" }) // removes programs that are not installed
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return lines
	}
	for _, dep := range info.Deps {
		for _, peer := range []string{"contribsys/faktory", "hibiken/asynq", "go-beanstalk", "gomodule/redigo"} {
			if strings.HasSuffix(dep.Path, peer) {
				lines = append(lines, dep.Path+" "+dep.Version)
			}
		}
	}
	return lines
}

// withKept adds earlier versions of programs that are not installed now, because their results are kept.
func withKept(now, before []string) []string {
	for _, line := range before {
		name, _, _ := strings.Cut(line, " ")
		if !slices.ContainsFunc(now, func(other string) bool { return strings.HasPrefix(other, name+" ") }) {
			now = append(now, line)
		}
	}
	return now
}
