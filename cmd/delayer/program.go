package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	"github.com/mix-basic/delayer/config"
)

// What a program's exit code says, beside 0; see sysexits.h. Any other means that the job is
// to be tried again, as 75 (EX_TEMPFAIL) does.
const (
	exitDataError     = 65  // EX_DATAERR: no other try can help
	exitNotExecutable = 126 // what shells and env say of a program that can't be executed
	exitNoProgram     = 127 // and of one that is not there
)

const (
	// killAfter is how long a program may go on that was told to end. It is less than what
	// package worker waits for a handler whose context has ended.
	killAfter = 500 * time.Millisecond
	// outputAfter is how long the output of a program that has ended is read when a child of
	// its own keeps that open.
	outputAfter = 2 * time.Second
	// startedLater is after how long a job is delivered again whose program could not be started.
	startedLater = 5 * time.Second
)

// program is what is run for each job.
type program struct {
	words          []string // without a shell
	shell          string   // else a command for the shell
	stdout, stderr io.Writer
	log            *slog.Logger
	starter        starter
	guard          guard

	mu      sync.Mutex
	ended   bool         // nothing is started any more
	running map[int]bool // the IDs of the processes that are not reaped
	missing time.Time    // when it could first not be started since it was last; zero: it can be
}

// check finds out what can be known before there is a job.
func (p *program) check() error {
	if err := p.find(); err != nil {
		return fail(exitUsage, err)
	}
	body, err := bodyFile("")
	if err != nil {
		return fail(exitFailed, err)
	}
	return body.Close()
}

// find looks for the program, as far as it is known: who knows what a shell will run?
func (p *program) find() error {
	path, err := exec.LookPath(p.command().Args[0])
	if err == nil && p.shell != "" {
		path, err = findInShell(p.shell)
	}
	if err != nil || path == "" {
		return err
	}
	return checkInterpreter(path)
}

func (p *program) command() *exec.Cmd {
	if p.shell != "" {
		return shellCommand(p.shell)
	}
	return exec.Command(p.words[0], p.words[1:]...)
}

// handle runs the program for one job. See worker.Handler.
func (p *program) handle(ctx context.Context, job *worker.Job) error {
	body, err := bodyFile(job.Body)
	if err != nil {
		return p.notStarted(ctx, job, err)
	}
	defer body.Close()
	stdout, stderr := &lines{to: p.stdout}, &lines{to: p.stderr, keep: maxKept + 1}
	cmd := p.command()
	cmd.Env = append(inherited(os.Environ()), jobVariables(job)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = body, stdout, stderr
	cmd.WaitDelay = outputAfter
	ownGroup(cmd)
	if err := p.start(cmd); err != nil {
		return p.notStarted(ctx, job, err)
	}
	stopped := awaitOrEnd(ctx, cmd.Process)
	code, err := p.reap(cmd)
	stdout.end()
	kept := stderr.end()
	if stopped != nil {
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

// awaitOrEnd waits for the end of the program, or ends it with ctx, and returns why then. Until it is
// reaped its number is nobody else's, and may be signalled.
func awaitOrEnd(ctx context.Context, leader *os.Process) (stopped error) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		awaitEnd(leader.Pid)
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	select {
	case <-ended: // by itself, just before
		return nil
	default:
		endGroup(leader, ended)
		return context.Cause(ctx)
	}
}

// start refuses when all is at an end.
func (p *program) start(cmd *exec.Cmd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return errEndedAtOnce
	}
	err := p.starter.start(cmd)
	if err == nil {
		p.running[cmd.Process.Pid] = true
		p.guard.watch(cmd.Process.Pid)
	}
	return err
}

// reap returns the program's exit code when its output has been read, and an error that says how it
// has ended, if that is not well. What became of its input and output is not among that.
func (p *program) reap(cmd *exec.Cmd) (code int, err error) {
	p.mu.Lock()
	delete(p.running, cmd.Process.Pid)
	p.guard.forget(cmd.Process.Pid)
	p.mu.Unlock()
	err = cmd.Wait()
	state := cmd.ProcessState
	switch {
	case state == nil:
		return -1, err
	case state.Success():
		return 0, nil
	}
	return state.ExitCode(), errors.New(state.String())
}

// end kills what runs, and has nothing started any more.
func (p *program) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = true
	for pid := range p.running {
		killGroup(pid)
	}
}

// starter starts programs, all from one thread: Linux ends a program with the thread that has started
// it, and Go ends threads as it likes, but for one that a goroutine holds. See ownGroup.
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

// notStarted has the job delivered again, to whichever worker, without costing it an attempt: it is
// the program that is missing, as while a new one is installed. An ID that is too long
// for the environment is the job's own fault.
func (p *program) notStarted(ctx context.Context, job *worker.Job, err error) error {
	if errors.Is(err, syscall.E2BIG) {
		return err
	}
	p.mu.Lock()
	rest := p.rest(time.Now())
	p.mu.Unlock()
	p.log.Error("the program can't be started, the job will be delivered again", "error", err, "topic", job.Topic, "id", job.ID)
	select {
	case <-time.After(rest):
	case <-ctx.Done():
	}
	return worker.Snooze(startedLater)
}

// started enters that the program can be started.
func (p *program) started() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missing = time.Time{}
}

// rest is for how long a place of the worker rests without a program, so that it does not pass all
// jobs through its hands: for as long as that has been so, within limits.
func (p *program) rest(now time.Time) time.Duration {
	if p.missing.IsZero() {
		p.missing = now
	}
	return min(max(now.Sub(p.missing), time.Second), 15*time.Second)
}

// inherited is our environment, without what it may tell of a job: of the one that we are
// ourselves run for.
func inherited(environ []string) []string {
	return slices.DeleteFunc(environ, func(variable string) bool {
		return strings.HasPrefix(strings.ToUpper(variable), config.JobPrefix)
	})
}

func jobVariables(job *worker.Job) []string {
	return []string{
		variable("ID", job.ID),
		variable("TOPIC", job.Topic),
		variable("ATTEMPT", strconv.Itoa(job.Attempt)),
		variable("MAX_ATTEMPTS", strconv.Itoa(job.MaxAttempts)),
		variable("TOKEN", strconv.FormatInt(job.Token, 10)),
		variable("BODY_LENGTH", strconv.Itoa(len(job.Body))),
	}
}

// variable is a value in the environment: as base64 under NAME_BASE64 if it can't stand
// there, for a NUL in it, or not on all systems, for being no UTF-8.
func variable(name, value string) string {
	if !utf8.ValidString(value) || strings.Contains(value, "\x00") {
		name, value = name+"_BASE64", base64.StdEncoding.EncodeToString([]byte(value))
	}
	return config.JobPrefix + name + "=" + value
}

// maxKept is how much of what a program wrote to standard error is kept with a job, in bytes.
const maxKept = 2 << 10

// withOutput adds the end of what the program wrote to standard error to an error.
func withOutput(err error, output string) error {
	output = endOf(strings.TrimSpace(output), maxKept)
	if output == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, output)
}

// endOf is the end of a text, of n bytes at most: whole lines if these are not too long, whole
// characters else.
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
