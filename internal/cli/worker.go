package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/async"
)

// maxConcurrency is the maximum number of programs at a time.
const maxConcurrency = 250

// workerFlags are the worker's flags.
type workerFlags struct {
	topics  []string
	shell   string // --exec
	options worker.Options
}

func beginWorker(f *flagSet) action {
	var w workerFlags
	f.several("topic", w.addTopics)
	f.text("exec", &w.shell)
	f.number("concurrency", &w.options.Concurrency, maxConcurrency)
	f.duration("lease", &w.options.Lease, maxLease)
	f.duration("timeout", &w.options.Timeout, maxTime)
	f.number("max-attempts", &w.options.MaxAttempts, math.MaxInt32)
	f.check = w.check
	return func(_ context.Context, c *call) (reply, error) { return reply{}, c.work(w) }
}

// addTopics adds the topics of a --topic.
func (w *workerFlags) addTopics(value string) error {
	for topic := range strings.SplitSeq(value, ",") {
		switch {
		case topic == "":
			return errors.New("a topic is empty: want TOPIC, or several with commas between them")
		case slices.Contains(w.topics, topic):
			return fmt.Errorf("%q was given before", topic)
		}
		w.topics = append(w.topics, topic)
	}
	return nil
}

func (w *workerFlags) check(program []string) error {
	switch {
	case len(w.topics) == 0:
		return errors.New("--topic is missing: whose jobs are to be handled?")
	case w.shell == "" && len(program) == 0:
		return errors.New("what is to be run? want --exec CMD, or a program and its arguments behind the options")
	case w.shell != "" && len(program) > 0:
		return errors.New("want either --exec CMD or a program and its arguments, not both")
	case len(program) > 0 && program[0] == "":
		return errors.New("the program's name is empty")
	}
	return nil
}

func (c *call) work(f workerFlags) error {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // programs inherit ignored signals
	errs := async.New(c.stderr.Write, readPatience)
	defer errs.Close()
	log := newWorkerLog(errs, c.json)
	out := newReportingOutput(c.stdout, func(message string) { log.Error("standard output: " + message) })
	defer out.Close()

	p := &program{words: c.arguments, shell: f.shell, stdout: out, stderr: errs, log: log, starter: newStarter(), guard: startGuard(), running: map[int]bool{}}
	if err := p.check(); err != nil {
		return err
	}
	mux := worker.NewMux()
	for _, topic := range f.topics {
		mux.HandleFunc(topic, p.handle)
	}
	f.options.Logger = log
	go c.warnOf(f.topics, log)
	return runUntilStopped(worker.New(c.client, mux, f.options), p, log)
}

// warnOf logs which topics are paused or throttled.
func (c *call) warnOf(topics []string, log *slog.Logger) {
	for _, topic := range topics {
		if why := c.obstacle(context.Background(), topic); why != "" {
			log.Warn("jobs are not delivered now", "topic", topic, "why", why)
		}
	}
}

// errEndedAtOnce is the error after a second signal.
var errEndedAtOnce = errors.New("ended at once: the jobs under way are delivered again when their leases end")

// runUntilStopped runs the worker. A signal stops it; a second one ends it at once.
func runUntilStopped(w *worker.Worker, p *program, log *slog.Logger) error {
	signals := notify(false) // before the log reports the start
	log.Info("the worker has started")
	err := signals.during(w.Run, func(signal os.Signal) <-chan time.Time {
		log.Info("the worker stops", "signal", signal.String())
		return nil
	}, func() {}, func() {})
	switch {
	case err == nil:
		log.Info("the worker has stopped")
	case errors.Is(err, errCutOff):
		p.end()
		return fail(exitInterrupted, errEndedAtOnce)
	}
	return err
}

// newWorkerLog returns the worker's own log. It shortens errors to one line, because the program's standard error was
// printed already.
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
