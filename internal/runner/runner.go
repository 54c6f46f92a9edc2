// Package runner runs a program for each job: delayer worker.
package runner

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/client/worker"
	"github.com/mix-basic/delayer/internal/async"
	"github.com/mix-basic/delayer/internal/exit"
)

// Options say what runs for the jobs of which topics.
type Options struct {
	Topics   []string
	Program  []string // run without a shell
	Shell    string   // or a shell command
	Worker   worker.Options
	JSON     bool                      // form of the log
	Obstacle func(topic string) string // why a topic's jobs are not delivered now; empty: they are
}

// Run runs the program for each job until a signal stops it; a second one ends it at once.
func Run(c *client.Client, o Options, stdout, stderr io.Writer) error {
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // programs inherit ignored signals
	errs := async.New(stderr.Write, readPatience)
	defer errs.Close()
	log := newLog(errs, o.JSON)
	out := newReportingOutput(stdout, func(message string) { log.Error("standard output: " + message) })
	defer out.Close()

	p := &program{words: o.Program, shell: o.Shell, stdout: out, stderr: errs, log: log, starter: newStarter(), guard: startGuard(), running: map[*os.Process]bool{}}
	if err := p.check(); err != nil {
		return err
	}
	mux := worker.NewMux()
	for _, topic := range o.Topics {
		mux.HandleFunc(topic, p.handle)
	}
	o.Worker.Logger = log
	go func() {
		for _, topic := range o.Topics {
			if why := o.Obstacle(topic); why != "" {
				log.Warn("jobs are not delivered now", "topic", topic, "why", why)
			}
		}
	}()
	return runUntilStopped(worker.New(c, mux, o.Worker), p, log)
}

// errEndedAtOnce is the error after a second signal.
var errEndedAtOnce = errors.New("ended at once: the jobs under way are delivered again when their leases end")

// runUntilStopped runs the worker. A signal stops it; a second one ends it at once.
func runUntilStopped(w *worker.Worker, p *program, log *slog.Logger) error {
	signals := exit.Notify(false) // before the log reports the start
	log.Info("the worker has started")
	err := signals.During(w.Run, func(signal os.Signal) time.Duration {
		log.Info("the worker stops", "signal", signal.String())
		return 0
	}, func() {}, func() {})
	switch {
	case err == nil:
		log.Info("the worker has stopped")
	case errors.Is(err, exit.ErrCutOff):
		p.end()
		return exit.With(exit.Interrupted, errEndedAtOnce)
	}
	return err
}

// newLog returns the worker's own log. It shortens errors to one line, because the program's standard error was
// printed already.
func newLog(w io.Writer, asJSON bool) *slog.Logger {
	o := &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(exit.OneLine(err.Error()))
		}
		return a
	}}
	if asJSON {
		return slog.New(slog.NewJSONHandler(w, o))
	}
	return slog.New(slog.NewTextHandler(w, o))
}
