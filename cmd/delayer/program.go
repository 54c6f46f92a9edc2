package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
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
const exitDataError = 65 // EX_DATAERR: no other try can help

const (
	// killAfter is how long a program may go on that was told to end. It is less than what
	// package worker waits for a handler whose context has ended.
	killAfter = 500 * time.Millisecond
	// outputAfter is how long the output of a program that has ended is read when a child of
	// its own keeps that open.
	outputAfter = 2 * time.Second
	// startAgain is how long a place of the worker rests when its program can't be
	// started, so that a worker without a program does not pass all jobs through its hands.
	startAgain = time.Second
	// startedLater is after how long a job is delivered again whose program could not be started.
	startedLater = 5 * time.Second
)

// program is what is run for each job.
type program struct {
	words          []string // without a shell
	shell          string   // else a command for the shell
	stdout, stderr *lineWriter
	log            *slog.Logger

	mu      sync.Mutex
	ended   bool         // nothing is started any more
	running map[int]bool // the IDs of the processes
}

// check finds out what can be known before there is a job.
func (p *program) check() error {
	if _, err := exec.LookPath(p.command().Args[0]); err != nil {
		return fail(exitUsage, err)
	}
	body, err := bodyFile("")
	if err != nil {
		return fail(exitFailed, err)
	}
	return body.Close()
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
	stdout, stderr := &lines{to: p.stdout}, &lines{to: p.stderr, keep: maxKept}
	cmd := p.command()
	cmd.Env = append(inherited(os.Environ()), jobVariables(job)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = body, stdout, stderr
	cmd.WaitDelay = outputAfter
	ownGroup(cmd)
	if err := p.start(cmd); err != nil {
		return p.notStarted(ctx, job, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- p.wait(cmd) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		select {
		case err = <-ended: // by itself, just before
		default:
			endGroup(cmd.Process, ended)
			err = fmt.Errorf("stopped: %w", context.Cause(ctx))
		}
	}
	stdout.end()
	kept := stderr.end()
	switch {
	case err == nil:
		return nil
	case cmd.ProcessState.ExitCode() == exitDataError:
		return worker.Bury(withOutput(err, kept))
	}
	return withOutput(err, kept)
}

// start refuses when all is at an end.
func (p *program) start(cmd *exec.Cmd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return errEndedAtOnce
	}
	err := cmd.Start()
	if err == nil {
		p.running[cmd.Process.Pid] = true
	}
	return err
}

// wait waits for the program's end. Its error says how it has ended, if that is not well; what
// became of its input and output is not among that.
func (p *program) wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	p.mu.Lock()
	delete(p.running, cmd.Process.Pid)
	p.mu.Unlock()
	if state := cmd.ProcessState; state != nil {
		err = nil
		if !state.Success() {
			err = errors.New(state.String())
		}
	}
	return err
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

// notStarted has the job delivered again, to whichever worker, without costing it an attempt: it is
// the program that is missing, as while a new one is installed. An ID that is too long
// for the environment is the job's own fault.
func (p *program) notStarted(ctx context.Context, job *worker.Job, err error) error {
	if errors.Is(err, syscall.E2BIG) {
		return err
	}
	p.log.Error("the program can't be started, the job will be delivered again", "error", err, "topic", job.Topic, "id", job.ID)
	select {
	case <-time.After(startAgain):
	case <-ctx.Done():
	}
	return worker.Snooze(startedLater)
}

// variablePrefix begins the names of the variables that tell a program of its job.
const variablePrefix = config.JobPrefix

// inherited is our environment, without what it may tell of a job: of the one that we are
// ourselves run for.
func inherited(environ []string) []string {
	var own []string
	for _, variable := range environ {
		if !strings.HasPrefix(strings.ToUpper(variable), variablePrefix) {
			own = append(own, variable)
		}
	}
	return own
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
	return variablePrefix + name + "=" + value
}

// maxKept is how much of an error is kept with a job, in bytes.
const maxKept = 8 << 10

// withOutput adds to an error what the program wrote to standard error: its last line behind
// the colon, since that mostly tells the most, and all below if there is more.
func withOutput(err error, output string) error {
	output = strings.TrimSpace(output)
	last := output[strings.LastIndexByte(output, '\n')+1:]
	const room = maxKept / 8
	switch {
	case output == "":
		return err
	case last == output && len(last) <= maxKept-room:
		return fmt.Errorf("%w: %s", err, last)
	case len(last) > room:
		return fmt.Errorf("%w\n%s", err, endOf(output, maxKept-room))
	}
	return fmt.Errorf("%w: %s\n%s", err, last, endOf(output, maxKept-2*room))
}

// endOf is the end of a text, of n bytes at most and whole characters.
func endOf(text string, n int) string {
	if len(text) <= n {
		return text
	}
	text = text[len(text)-n:]
	for i := range min(len(text), utf8.UTFMax) {
		if utf8.RuneStart(text[i]) {
			return "… " + text[i:]
		}
	}
	return "… " + text
}
