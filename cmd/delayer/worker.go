package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/async"
)

// maxConcurrency is how many programs run at a time at most. Package worker has room for far more handlers.
const maxConcurrency = 250

var workerCommand = command{
	name: "worker", arguments: "--topic T[,T...] [options] (--exec CMD | PROGRAM ARGUMENT...)", most: 1 << 20, program: true,
	help: "run a program for each job of the topics, until it is stopped",
	flags: func(f *flag.FlagSet, o *options) {
		f.Func("topic", "", addTopics(&o.topics))
		f.Func("exec", "", setOnce(&o.shell, "a command for the shell"))
		f.Func("concurrency", "", setNumber(&o.concurrency, maxConcurrency))
		f.Func("lease", "", setDuration(&o.lease, maxLease))
		f.Func("timeout", "", setDuration(&o.timeout, maxTime))
		f.Func("max-attempts", "", setNumber(&o.maxAttempts, 1<<31-1))
	},
	options: `--topic T[,T...] -- the topics whose jobs are handled; may be given several times
--exec CMD -- run by the shell: sh -c, or cmd /C on Windows
PROGRAM ARGUMENT... -- run as it is, without a shell; all that follows PROGRAM is its own
--concurrency N -- how many jobs are handled at a time, up to 250; 10 if not given
--lease D -- how long the jobs of a worker that has crashed rest until another gets them, up to 24h;
  if not given as the job says, or 30s; a program may run longer, the lease is renewed
--timeout D -- how long a program may run; without limit if not given
--max-attempts N -- how often a job is tried that does not say so; 10 if not given
`,
	note: `The program gets the job's body on standard input, which is a file that has all of it, and in the
environment DELAYER_JOB_ID, DELAYER_JOB_TOPIC, DELAYER_JOB_ATTEMPT (1, 2, ...), DELAYER_JOB_MAX_ATTEMPTS,
DELAYER_JOB_TOKEN and DELAYER_JOB_BODY_LENGTH (in bytes). The file has no name, and is made where TMPDIR
says, or else in /tmp; without room there the job is delivered again, and the attempt does not count.
An ID or a topic that is no UTF-8, or has a NUL, is in DELAYER_JOB_ID_BASE64 or
DELAYER_JOB_TOPIC_BASE64 instead.
Its exit code says what becomes of the job: 0, it is done; 65, it becomes a dead letter; any other,
it is tried again later, and becomes a dead letter when its attempts are used up. The last 2 KiB of what
the program wrote to standard error are kept with the job. 126 and 127 are what shells say of a
program that can't be executed, or is not there: the attempt does not count, the job is delivered
again 5 s later, and the worker rests for 1 to 15 s before it tries another. What can be known of that
before is found out at the start: the program, or the command's first word, and a script's interpreter.
A program that has run for too long, or whose job is another's now, gets SIGTERM and, half a second
later, SIGKILL, with all that it has started. If the worker is killed, the programs are killed, too, with
all that they have started, but not on Windows. On SIGTERM or SIGINT the worker begins no more
jobs and gives those under way 10 s before it ends them so; these are delivered again, and the
attempt does not count. A second signal ends all at once.
The program's output goes to that of the worker, line by line. The worker's own log goes to standard
error; with --json it is JSON.
`,
	check: checkWorker,
	run:   runWorker,
}

func checkWorker(o *options) error {
	switch {
	case len(o.topics) == 0:
		return errors.New("--topic is missing: whose jobs are to be handled?")
	case o.shell == "" && len(o.arguments) == 0:
		return errors.New("what is to be run? want --exec CMD, or a program and its arguments behind the flags")
	case o.shell != "" && len(o.arguments) > 0:
		return errors.New("want either --exec CMD or a program and its arguments, not both")
	case len(o.arguments) > 0 && o.arguments[0] == "":
		return errors.New("the program's name is empty")
	}
	return nil
}

func runWorker(_ context.Context, c *call) (reply, error) {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // programs would be started to ignore what we ignore
	errs := async.New(c.stderr.Write, readPatience)
	defer errs.Close()
	log := newWorkerLog(errs, c.json)
	out := newReportingOutput(c.stdout, func(message string) { log.Error("standard output: " + message) })
	defer out.Close()

	p := &program{words: c.arguments, shell: c.shell, stdout: out, stderr: errs, log: log, starter: newStarter(), guard: startGuard(), running: map[int]bool{}}
	if err := p.check(); err != nil {
		return reply{}, err
	}
	mux := worker.NewMux()
	for _, topic := range c.topics {
		mux.HandleFunc(topic, p.handle)
	}
	w := worker.New(c.client, mux, worker.Options{
		Concurrency: c.concurrency, Lease: c.lease, Timeout: c.timeout, MaxAttempts: c.maxAttempts, Logger: log,
	})
	return reply{}, runUntilStopped(w, p, log)
}

// errEndedAtOnce says what a second signal leaves.
var errEndedAtOnce = errors.New("ended at once: the jobs under way are delivered again when their leases end")

// runUntilStopped runs the worker. A signal stops it, a second one ends it at once.
func runUntilStopped(w *worker.Worker, p *program, log *slog.Logger) error {
	signals := notify(false) // before anybody can hear that it has started
	log.Info("the worker has started")
	err := signals.during(w.Run, func(signal os.Signal) <-chan time.Time {
		log.Info("the worker stops", "signal", signal.String())
		return nil
	}, func() {})
	switch {
	case err == nil:
		log.Info("the worker has stopped")
	case errors.Is(err, errCutOff):
		p.end()
		return fail(exitInterrupted, errEndedAtOnce)
	}
	return err
}

// newWorkerLog is what the worker itself has to say. Of an error there is a line: what the program has
// written to standard error went there.
func newWorkerLog(w io.Writer, asJSON bool) *slog.Logger {
	o := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(inOneLine(err.Error()))
		}
		return a
	}}
	if asJSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
