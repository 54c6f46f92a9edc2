package runner

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/variables"
)

// Exit codes of a program with a special meaning, see sysexits.h.
const (
	exitDataError     = 65  // EX_DATAERR: a retry is useless
	exitNotExecutable = 126 // from shells and env: the program is not executable
	exitNoProgram     = 127 // from shells and env: the program does not exist
)

const (
	// killAfter is how long a program may run after SIGTERM. It is shorter than the time that package worker waits for a
	// handler whose context has ended.
	killAfter = 500 * time.Millisecond
	// outputAfter is how long the output of an ended program is read if a child keeps it open.
	outputAfter = 2 * time.Second
	// startedLater is the delay of a job whose program could not be started.
	startedLater = 5 * time.Second
)

// program is the program that runs for each job.
type program struct {
	words          []string // run without a shell
	shell          string   // or a shell command
	stdout, stderr io.Writer
	log            *slog.Logger
	starter        starter
	guard          guard

	mu      sync.Mutex
	ended   bool // no more programs start
	running map[*os.Process]bool
	missing time.Time // when starting first failed; zero: it works
}

// check finds errors that are detectable without a job.
func (p *program) check() error {
	if err := p.find(); err != nil {
		return exit.With(exit.Usage, err)
	}
	body, err := bodyFile("")
	if err != nil {
		return exit.With(exit.Failed, err)
	}
	return body.Close()
}

// find looks for the program or, in a shell command, for a plain first word.
func (p *program) find() error {
	path, err := exec.LookPath(p.command(context.Background()).Args[0])
	if err == nil && p.shell != "" {
		path, err = findInShell(p.shell)
	}
	if err != nil || path == "" {
		return err
	}
	return checkInterpreter(path)
}

// command returns the program as a command that ends with ctx.
func (p *program) command(ctx context.Context) *exec.Cmd {
	if p.shell != "" {
		return shellCommand(ctx, p.shell)
	}
	return exec.CommandContext(ctx, p.words[0], p.words[1:]...)
}

// handle runs the program for one job. See worker.Handler.
func (p *program) handle(ctx context.Context, job *worker.Job) error {
	body, err := bodyFile(job.Body)
	if err != nil {
		return p.notStarted(ctx, job, err)
	}
	defer body.Close()
	stdout, stderr := &lines{to: p.stdout}, &lines{to: p.stderr, keep: maxKept + 1}
	cmd := p.command(ctx)
	cmd.Env = append(inherited(os.Environ()), jobVariables(job)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = body, stdout, stderr
	cmd.WaitDelay = outputAfter
	ownGroup(cmd)
	var stopped error // why ctx ended the program
	var kill *time.Timer
	cmd.Cancel = func() error {
		stopped, kill = context.Cause(ctx), time.AfterFunc(killAfter, func() { killGroup(cmd.Process) })
		return endGroup(cmd.Process)
	}
	if err := p.start(cmd); err != nil {
		return p.notStarted(ctx, job, err)
	}
	code, err := p.reap(cmd)
	stdout.end()
	kept := stderr.end()
	if stopped != nil {
		kill.Stop()
		killGroup(cmd.Process) // what the program has left
		return withOutput(fmt.Errorf("stopped: %w", stopped), kept)
	}
	if err != nil {
		err = withOutput(err, kept)
	}
	switch code {
	case exitNotExecutable, exitNoProgram:
		return p.notStarted(ctx, job, err)
	case exitDataError:
		err = worker.Bury(err)
	}
	p.started()
	return err
}

// start starts the program unless end was called.
func (p *program) start(cmd *exec.Cmd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return errEndedAtOnce
	}
	err := p.starter.start(cmd)
	if err == nil {
		p.running[cmd.Process] = true
		p.guard.watch(cmd.Process.Pid)
	}
	return err
}

// reap waits until the program has ended and its output has been read. It returns the exit code and, after a failure, an error
// that describes how the program ended. Errors of the program's input and output do not count.
func (p *program) reap(cmd *exec.Cmd) (code int, err error) {
	err = cmd.Wait()
	p.mu.Lock()
	delete(p.running, cmd.Process)
	p.guard.forget(cmd.Process.Pid)
	p.mu.Unlock()
	state := cmd.ProcessState
	switch {
	case state == nil:
		return -1, err
	case state.Success():
		return 0, nil
	}
	return state.ExitCode(), errors.New(state.String())
}

// end kills all programs and prevents new ones.
func (p *program) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for leader := range p.running {
		killGroup(leader)
	}
}

// starter starts all programs from one thread, locked to a goroutine: Linux kills a program when the thread that started
// it ends (see ownGroup), and Go may end other threads at any time.
type starter chan func()

func newStarter() starter {
	s := make(starter)
	go func() {
		runtime.LockOSThread()
		for start := range s {
			start()
		}
	}()
	return s
}

func (s starter) start(cmd *exec.Cmd) error {
	result := make(chan error)
	s <- func() { result <- cmd.Start() }
	return <-result
}

// notStarted releases the job, which costs no attempt: the program may be missing only while a new version is installed.
// For an ID too long for the environment, the job itself is at fault.
func (p *program) notStarted(ctx context.Context, job *worker.Job, err error) error {
	if errors.Is(err, syscall.E2BIG) {
		return err
	}
	p.mu.Lock()
	rest := p.rest(time.Now())
	p.mu.Unlock()
	p.log.Error("the program can't be started, the job will be delivered again", append([]any{"error", err}, job.LogArgs()...)...)
	select {
	case <-time.After(rest):
	case <-ctx.Done():
	}
	return worker.Release(startedLater)
}

// started records that the program can be started.
func (p *program) started() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missing = time.Time{}
}

// rest returns how long the handler waits while the program is missing, so that the worker does not reserve and release all
// jobs. The rest is as long as the program has been missing, within limits.
func (p *program) rest(now time.Time) time.Duration {
	if p.missing.IsZero() {
		p.missing = now
	}
	return min(max(now.Sub(p.missing), time.Second), 15*time.Second)
}

// inherited returns the worker's environment without the variables of a job. The worker may itself
// run for a job.
func inherited(environ []string) []string {
	return slices.DeleteFunc(environ, func(variable string) bool {
		variable = strings.ToUpper(variable)
		return slices.ContainsFunc(jobVariable, func(prefix string) bool { return strings.HasPrefix(variable, prefix) })
	})
}

// jobVariable are the beginnings of the variables of a job.
var jobVariable = []string{variables.Job, variables.Header, "TRACEPARENT=", "TRACESTATE="}

func jobVariables(job *worker.Job) []string {
	list := []string{
		variable(variables.Job+"ID", job.ID),
		variable(variables.Job+"TOPIC", job.Topic),
		variable(variables.Job+"ATTEMPT", strconv.Itoa(job.Attempt)),
		variable(variables.Job+"MAX_ATTEMPTS", strconv.Itoa(job.MaxAttempts)),
		variable(variables.Job+"TOKEN", strconv.FormatInt(job.Token, 10)),
		variable(variables.Job+"BODY_LENGTH", strconv.Itoa(len(job.Body))),
	}
	for _, name := range slices.Sorted(maps.Keys(job.Headers)) { // of two that become one variable, the program gets the later
		list = append(list, variable(variables.Header+strings.Map(inVariable, name), job.Headers[name]))
	}
	for _, name := range []string{"traceparent", "tracestate"} {
		if value, has := job.Headers[name]; has {
			list = append(list, variable(strings.ToUpper(name), value))
		}
	}
	return list
}

// inVariable converts a character of a header's name for an environment variable.
func inVariable(r rune) rune {
	switch {
	case 'a' <= r && r <= 'z':
		return r - 'a' + 'A'
	case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
		return r
	}
	return '_'
}

// variable returns an environment variable. A value with a NUL or invalid UTF-8 is passed in base64 as NAME_BASE64.
func variable(name, value string) string {
	if !utf8.ValidString(value) || strings.Contains(value, "\x00") {
		name, value = name+"_BASE64", base64.StdEncoding.EncodeToString([]byte(value))
	}
	return name + "=" + value
}

// maxKept is the number of bytes of a program's standard error that are stored with a job.
const maxKept = 2 << 10

// withOutput adds the end of the program's standard error to an error.
func withOutput(err error, output string) error {
	output = endOf(strings.TrimSpace(output), maxKept)
	if output == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, output)
}

// endOf returns at most the last n bytes of a text: whole lines or, if these are too long, whole characters.
func endOf(text string, n int) string {
	if len(text) <= n {
		return text
	}
	const mark = "… "
	text = text[len(text)-n+len(mark):]
	if _, whole, found := strings.Cut(text, "\n"); found && len(whole) > n/2 {
		return mark + whole
	}
	for i := range utf8.UTFMax {
		if utf8.RuneStart(text[i]) {
			return mark + text[i:]
		}
	}
	return mark + text
}

// bodyFile returns a file with the whole body, for a program to read. A pipe would end early if the worker were killed,
// and the program would take a part for the whole. The file disappears when the worker and the program have closed it,
// however they end.
func bodyFile(body string) (*os.File, error) {
	f, err := fleetingFile()
	if err == nil {
		if _, err = f.WriteAt([]byte(body), 0); err != nil { // leaves the read position at 0
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("no room for the job's body: %w", err)
	}
	return f, nil
}
