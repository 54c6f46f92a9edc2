package hops

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// runs is how often a call is measured that seems too long: a timer may have fired in a run, or the program on a busy machine not yet have come
// to the call.
const runs = 10

func TestHops(t *testing.T) {
	if os.Getenv("HOPS") == "" {
		t.Skip("it builds everything with counters; make hops runs it")
	}
	program := filepath.Join(t.TempDir(), "calls")
	output(t, "go", "build", "-cover", "-covermode=atomic", "-coverpkg="+module+"...", "-o", program, "./calls")
	for _, call := range slices.Sorted(maps.Keys(allowed)) {
		var least []string
		for n := 0; n < runs && (least == nil || countOf(least).exceeds(allowed[call]) != ""); n++ {
			if passed := measure(t, program, call); least == nil || len(passed) < len(least) {
				least = passed
			}
		}
		got := countOf(least)
		t.Logf("%-4s %3d functions in %2d files", call, got.functions, got.files)
		if complaint := got.exceeds(allowed[call]); complaint != "" {
			t.Errorf("%s: %s. It passes through:\n%s", call, complaint, strings.Join(least, "\n"))
		}
	}
}

// A call that passes through one function or file too many is noticed.
func TestOneMoreIsNoticed(t *testing.T) {
	passed := []string{"client/push.go:1:\tPush", "client/push.go:9:\tpush", "store/push.go:1:\tPush"}
	for _, c := range []struct {
		allowed count
		exceeds bool
	}{{count{3, 2}, false}, {count{2, 2}, true}, {count{3, 1}, true}, {count{4, 3}, false}} {
		if complaint := countOf(passed).exceeds(c.allowed); (complaint != "") != c.exceeds {
			t.Errorf("allowed %v: %q", c.allowed, complaint)
		}
	}
}

// essential are functions that each call passes through. A pass goes on after its job is seen in the queue, until it sleeps.
var essential = map[string][]string{
	"push": {"*Store.Push"}, "pop": {"*Store.Pop"}, "ack": {"*Store.Ack"}, "wake": {"*Store.Pop"},
	"pass": {"*DueJobs.readMoved", "*wakeTimer.sleepUntil"},
}

// measure returns the functions that the call passes through in one run.
func measure(t *testing.T, program, call string) []string {
	t.Helper()
	f := redistest.Start(t)
	other := clienttest.On(f.Pool()) // another process
	defer other.Close()
	push := func(delay time.Duration) {
		t.Helper()
		_, err := other.Push(t.Context(), client.Message{Topic: "t", Body: "body"}, delay)
		redistest.Check(t, err)
	}
	moved := func(jobs int) {
		t.Helper()
		redistest.Until(t, "the job is moved", func() bool { return len(f.Queue("t")) == jobs })
	}
	counters := t.TempDir()
	run := exec.Command(program, call, f.Addr, counters)
	run.Env = append(os.Environ(), "GOCOVERDIR="+t.TempDir()) // for what it writes when it ends
	run.Stderr = os.Stderr
	in, err := run.StdinPipe()
	redistest.Check(t, err)
	out, err := run.StdoutPipe()
	redistest.Check(t, err)
	redistest.Check(t, run.Start())
	lines := bufio.NewScanner(out)
	says := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("%s says %q, want %q", call, lines.Text(), want)
		}
	}
	tell := func() {
		t.Helper()
		_, err := io.WriteString(in, "\n")
		redistest.Check(t, err)
	}
	if call == "wake" {
		f.AwaitWaiter("t")
		push(0)
	}
	says("ready")
	switch call {
	case "wake":
		f.AwaitWaiter("t")
	case "pass":
		push(300 * time.Millisecond)
		moved(1)
	}
	tell()
	says("counting")
	switch call {
	case "wake":
		push(0)
	case "pass":
		push(300 * time.Millisecond)
		moved(2)
	}
	var passed []string
	redistest.Until(t, fmt.Sprintf("%s has passed through %v", call, essential[call]), func() bool {
		tell()
		says("counted")
		passed = functions(output(t, "go", "tool", "covdata", "func", "-i="+counters))
		return !slices.ContainsFunc(essential[call], func(name string) bool {
			return !slices.ContainsFunc(passed, func(f string) bool { return strings.HasSuffix(f, "\t"+name) })
		})
	})
	redistest.Check(t, in.Close())
	redistest.Check(t, run.Wait())
	return passed
}

const module = "github.com/mix-basic/delayer/"

// functions returns the project's functions that ran, from covdata's list: file:line:, name, percentage.
func functions(list string) (passed []string) {
	for line := range strings.Lines(list) {
		fields := strings.Fields(strings.TrimPrefix(line, module))
		if strings.HasPrefix(line, module) && len(fields) == 3 && fields[2] != "0.0%" && !strings.HasPrefix(fields[0], "internal/hops/") {
			passed = append(passed, fields[0]+"\t"+fields[1])
		}
	}
	return passed
}

func countOf(passed []string) count {
	files := map[string]bool{}
	for _, function := range passed {
		file, _, _ := strings.Cut(function, ":")
		files[file] = true
	}
	return count{len(passed), len(files)}
}

// exceeds says by how much a count exceeds what is allowed, or "".
func (c count) exceeds(allowed count) string {
	if c.functions <= allowed.functions && c.files <= allowed.files {
		return ""
	}
	return fmt.Sprintf("%d functions in %d files, allowed are %d in %d", c.functions, c.files, allowed.functions, allowed.files)
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
