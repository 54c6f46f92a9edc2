//go:build !windows

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/mix-basic/delayer/internal/docs"
	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// The tutorial works from top to bottom, in each language.
func TestTutorial(t *testing.T) {
	redistest.Long(t)
	for _, language := range []string{"go", "php"} {
		t.Run(language, func(t *testing.T) {
			if _, err := exec.LookPath(language); err != nil {
				if os.Getenv("PHP") == "needed" {
					t.Fatal(err)
				}
				t.Skip("php is not installed; make e2e installs it")
			}
			t.Parallel()
			newLesson(t, language).follow(read(t, "../../docs/tutorial.md"))
		})
	}
}

// lesson is a reader of the tutorial who uses one language.
type lesson struct {
	t        *testing.T
	language string
	dir      string
	env      []string
	places   *strings.Replacer // of Redis, for the address that the tutorial shows; and a delay that no slow test outlasts
	worker   *process          // that runs in a terminal of its own
	printed  [][]string        // what it prints after the coming commands, as the text says
}

func newLesson(t *testing.T, language string) *lesson {
	address := redistest.Start(t).Addr
	url := urlOf(newSite(t, address, "[http]", "listen = 127.0.0.1:0").start(t))
	program, err := filepath.Abs(binary)
	check(t, err)
	bin, dir := t.TempDir(), t.TempDir()
	check(t, os.Symlink(program, filepath.Join(bin, "delayer")))
	project, err := filepath.Abs("../..")
	check(t, err)
	check(t, os.Symlink(project, filepath.Join(dir, "delayer")))
	env := append(environment(t, "DELAYER_REDIS_URL=redis://"+address, "DELAYER_URL="+url), "PATH="+bin+":"+os.Getenv("PATH"))
	return &lesson{t: t, language: language, dir: dir, env: append(env, goEnvironment()...),
		places: strings.NewReplacer("127.0.0.1:6379", address, "20*time.Second", "time.Hour", "'20s'", "'1h'")}
}

// inPHP is a command with what a reader of the PHP parts types instead.
var inPHP = regexp.MustCompile(`^(.*?) +# PHP: (.*)$`)

// follow writes each file where the tutorial has it, and runs each command.
func (l *lesson) follow(tutorial string) {
	l.printed = regexp.MustCompile("The worker prints `(.*?)`").FindAllStringSubmatch(tutorial, -1)
	for _, sample := range docs.Samples(tutorial) {
		prompt := "" // of sh
		switch sample.Language {
		case "go", "php":
			if sample.Language == l.language {
				write(l.t, filepath.Join(l.dir, sample.File), l.places.Replace(sample.Text))
			}
			continue
		case "console":
			prompt = "$ "
		}
		for _, c := range commandsOf(sample, prompt) {
			if both := inPHP.FindStringSubmatch(c.text); both != nil {
				c.text = both[map[string]int{"go": 1, "php": 2}[l.language]]
			}
			l.run(c)
		}
	}
	if len(l.printed) > 0 {
		l.t.Errorf("no command makes the worker print %q", l.printed)
	}
}

// anyID is an ID with a time, of which the tutorial shows one.
var anyID = regexp.MustCompile(`\d{10,}`)

// run runs a command, or starts it if it is a worker.
func (l *lesson) run(c sampleCommand) {
	l.t.Helper()
	fields := strings.Fields(c.text)
	switch {
	case c.text == "nothing" || c.text == "delayer --dev" || l.language == "php" && fields[0] == "go":
		return
	case fields[0] == "cd":
		l.dir = filepath.Join(l.dir, fields[1])
		return
	case fields[0] == "go" && fields[1] == "run":
		l.shell("go build -o program .")
		c.text = "./program " + strings.Join(fields[3:], " ")
	case strings.HasPrefix(c.text, "delayer dead list"):
		eventually(l.t, "the job is a dead letter", func() bool { return strings.Contains(l.shell(c.text+" || true"), "closed") })
	}
	if last := fields[len(fields)-1]; last == "close" || last == "report" || last == "close.php" || last == "report.php" {
		if l.worker != nil {
			l.worker.signal(syscall.SIGINT)
			l.worker.wait()
		}
		l.worker = startCommand(l.t, l.dir, l.env, exec.Command("sh", "-c", "exec "+c.text))
		if strings.HasPrefix(last, "close") {
			l.shell("delayer reschedule close-1002 0")
		} else {
			eventually(l.t, "the schedule is set", func() bool { return strings.Contains(l.shell("delayer schedule list"), "nightly") })
		}
		return
	}
	if out := l.shell(c.text); !strings.Contains(anyID.ReplaceAllString(out, "1"), anyID.ReplaceAllString(c.answer, "1")) {
		l.t.Errorf("%s prints %q, not %q", c.text, out, c.answer)
	}
	if strings.HasPrefix(c.text, "delayer dead requeue") || strings.HasPrefix(c.text, "delayer schedule run") {
		l.worker.expect(l.worker.stdout, l.printed[0][1])
		l.printed = l.printed[1:]
	}
}

// shell runs a command, which must succeed, and returns its standard output.
func (l *lesson) shell(command string) string {
	l.t.Helper()
	p := startCommand(l.t, l.dir, l.env, exec.Command("sh", "-c", command))
	if code := p.wait(); code != 0 {
		l.t.Fatalf("%s: exit code %d\n%s%s", command, code, p.stdout, p.stderr)
	}
	return p.stdout.String()
}
