package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/logger"
	"github.com/mix-basic/delayer/server"
)

const (
	// checkWait is how long a start waits for Redis before it goes on without.
	checkWait = 5 * time.Second
	// stopWait is the last resort, should the server not end within the 4 s
	// that it gives itself.
	stopWait = 4500 * time.Millisecond
)

// mode is what differs between the foreground and the background.
type mode struct {
	hangUp   bool                        // SIGHUP stops the service in any case
	ready    func(errorLog string) error // called when the service has started
	reopened func(errorLog string) error // called when the logs were reopened
}

var foreground = mode{
	ready:    func(string) error { return nil },
	reopened: func(string) error { return nil },
}

// serve is the daemon, from reading its configuration to its end by a signal.
func serve(o options, m mode, stdout io.Writer) error {
	signals := notify(m.hangUp)
	defer signals.close()
	found, err := findConfiguration(o)
	if err != nil {
		return err
	}
	c, notes := found.config, []string(nil)
	if o.dev {
		redis, devNotes, err := startDev(o, &c)
		if err != nil {
			return err
		}
		defer redis.Close()
		notes = devNotes
	}
	if note := pidNote(c.Delayer.PID); note != "" {
		notes = append(notes, note)
	}
	poolOptions, err := poolOptions(c.Redis)
	if err != nil {
		return fail(exitUsage, err)
	}
	pool := client.NewPool(poolOptions)
	defer pool.Close()

	pid, err := lockPIDFile(c.Delayer.PID)
	if err != nil {
		return fail(exitFailed, err)
	}
	defer pid.release()
	console := &console{w: stdout}
	log, err := openLogs(c.Delayer, console)
	if err != nil {
		return fail(exitFailed, err)
	}
	defer log.Close()

	work := server.New(pool, server.Options{Interval: c.Delayer.TimerInterval, Prefix: c.Redis.Prefix, Logger: log})
	s := &service{mode: m, config: c, signals: signals, log: log, console: console}
	return s.run(work, banner(found.searched, notes))
}

func openLogs(d config.Delayer, console io.Writer) (*logger.Logger, error) {
	return logger.Open(logger.Options{
		AccessLog: d.AccessLog,
		ErrorLog:  d.ErrorLog,
		Console:   console,
		JSON:      d.LogFormat == "json",
	})
}

// service is the part of the daemon's life in which it has its logs.
type service struct {
	mode     mode
	config   config.Config
	signals  *signals
	log      *logger.Logger
	console  *console
	stopping bool // a signal has said so
}

func (s *service) run(work *server.Server, banner string) error {
	if err := s.check(work); err != nil || s.stopping {
		return err
	}
	if s.config.Delayer.LogFormat != "json" { // whose readers would stumble over it
		fmt.Fprint(s.console, banner)
	}
	s.log.Info(fmt.Sprintf("Service started successfully, PID: %d", os.Getpid()))
	if err := s.mode.ready(s.config.Delayer.ErrorLog); err != nil {
		return s.fail(err)
	}
	if err := s.during(work.Run); err != nil {
		return s.fail(err)
	}
	s.log.Info(fmt.Sprintf("Service stopped successfully, PID: %d", os.Getpid()))
	return nil
}

// check fails when Redis will never have the server. A Redis that is away is
// left to the server, which waits for it and says so in the log.
func (s *service) check(work *server.Server) error {
	err := s.during(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, checkWait)
		defer cancel()
		return work.Check(ctx)
	})
	switch {
	case errors.Is(err, server.ErrRefused):
		return s.fail(fmt.Errorf("redis on %s: %w", s.config.Redis.Addr(), err))
	case errors.Is(err, errCutOff):
		return s.fail(err)
	}
	return nil
}

// errCutOff: the service ends although its work has not.
var errCutOff = errors.New("the service was cut off")

// during does the work and minds the signals meanwhile. The first that stops ends
// the work's context; should the work not end then, it is left alone after
// stopWait, or at once with a second signal.
func (s *service) during(work func(context.Context) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- work(ctx) }()
	var deadline <-chan time.Time
	for {
		select {
		case err := <-done:
			return err
		case <-s.signals.reopen:
			s.reopen()
		case signal := <-s.signals.stop:
			if s.stopping {
				return fmt.Errorf("%w by a second signal while it stopped: %v", errCutOff, signal)
			}
			s.stopping = true
			cancel()
			deadline = time.After(stopWait)
		case <-deadline:
			return fmt.Errorf("%w: it has not stopped within %v", errCutOff, stopWait)
		}
	}
}

// reopen lets the logs be rotated: what follows goes to the files that have
// the logs' names now.
func (s *service) reopen() {
	err := errors.Join(s.log.Reopen(), s.mode.reopened(s.config.Delayer.ErrorLog))
	if err != nil {
		s.log.Error(fmt.Sprintf("Logs could not be reopened: %v", err))
	}
}

// fail writes the error to the error log alone; main prints it.
func (s *service) fail(err error) error {
	s.console.mute()
	s.log.Error(err.Error())
	return fail(exitFailed, err)
}

// console is a writer that can be silenced.
type console struct {
	w     io.Writer
	muted atomic.Bool
}

func (c *console) Write(b []byte) (int, error) {
	if c.muted.Load() {
		return len(b), nil
	}
	return c.w.Write(b)
}

func (c *console) mute() { c.muted.Store(true) }
