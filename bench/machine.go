package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
)

// machine describes where this runs.
func machine() []string {
	processor := runtime.GOARCH
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		processor = model
	}
	lines := []string{fmt.Sprintf("%s, %d cores, %s", processor, runtime.NumCPU(), runtime.GOOS)}
	if kernel := firstLine("uname", "-sr"); kernel != "" {
		lines[0] = fmt.Sprintf("%s, %d cores, %s", processor, runtime.NumCPU(), kernel)
	}
	if memory := field("/proc/meminfo", "MemTotal"); memory != "" {
		var kb int
		fmt.Sscan(memory, &kb)
		lines[0] += fmt.Sprintf(", %d GB of memory", (kb+1<<19)>>20)
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		lines = append(lines, "load when this run began: "+strings.Join(strings.Fields(string(load))[:1], "")+" (others may have used the machine too)")
	}
	return lines
}

// memoryAvailable is in bytes; 0 if unknown.
func memoryAvailable() int {
	var kb int
	fmt.Sscan(field("/proc/meminfo", "MemAvailable"), &kb)
	return kb << 10
}

// bytesPerJob is what a seeded job takes at most.
const bytesPerJob = 450

// roomFor reports whether so many jobs more fit into the memory, and notes it if not.
func (r *Run) roomFor(jobs int) bool {
	free := memoryAvailable()
	if free == 0 || jobs*bytesPerJob*3/2 < free {
		return true
	}
	r.note("%s waiting jobs more were left out: too little memory.", count(jobs))
	return false
}

func field(file, name string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func firstLine(program string, args ...string) string {
	out, _ := exec.Command(program, args...).CombinedOutput()
	line, _, _ := strings.Cut(string(out), "\n")
	return strings.TrimSpace(line)
}

// revision is the sources' commit, with "-dirty" behind it if they differ from
// it in what is measured.
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

// versions names what is compared.
func versions() []string {
	lines := []string{
		"Go " + strings.TrimPrefix(runtime.Version(), "go"),
		firstLine("redis-server", "--version"),
		firstLine("beanstalkd", "-v"),
	}
	if words := strings.Fields(lines[1]); len(words) > 2 {
		lines[1] = "Redis " + strings.TrimPrefix(words[2], "v=") + " (no persistence, no limit of memory)"
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return lines
	}
	for _, dep := range info.Deps {
		for _, peer := range []string{"contribsys/faktory", "hibiken/asynq", "gocraft/work", "go-beanstalk", "machinery/v2", "gomodule/redigo"} {
			if strings.HasSuffix(dep.Path, peer) {
				lines = append(lines, dep.Path+" "+dep.Version)
			}
		}
	}
	return lines
}
