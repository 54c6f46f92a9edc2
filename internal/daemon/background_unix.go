//go:build !windows

package daemon

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"github.com/sevlyar/go-daemon"
	"golang.org/x/sys/unix"

	"github.com/mix-basic/delayer/internal/async"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/variables"
)

// readyMark ends the output of a daemon that starts in the background.
const readyMark = 0

// serveInBackground runs the daemon as a child in its own session. The child is this program again, marked by an
// environment variable.
//
// The child's stdout and stderr are a pipe to the parent until it writes the ready mark. The parent prints the
// output before the mark and exits with 0. If the pipe ends without a mark, the parent exits with the child's exit
// code.
func serveInBackground(o Options, stdout, stderr *os.File) error {
	context := &daemon.Context{Args: []string{os.Args[0], "-d"}}
	if o.Configuration != "" {
		path, err := filepath.Abs(o.Configuration)
		if err != nil {
			return exit.With(exit.Usage, err)
		}
		context.Args = append(context.Args, "-c", path)
	}
	if o.Redis != "" { // ps does not show the environment
		os.Setenv(variables.RedisURL, o.Redis)
	}
	if !daemon.WasReborn() {
		return launch(context, stdout, stderr)
	}
	if _, err := context.Reborn(); err != nil {
		return exit.With(exit.Failed, fmt.Errorf("-d: %w", err))
	}
	os.Unsetenv(daemon.MARK_NAME) // programs started by this one must not count as such children
	return serve(o, mode{hangUp: true, ready: detach, reopened: recordCrashes}, stdout, stderr)
}

// launch starts the child and waits until it is ready or has ended. A signal (ctrl-C, a closed terminal) stops the
// child: no daemon keeps running that was not reported as started.
func launch(context *daemon.Context, stdout, stderr io.Writer) error {
	signals := exit.Notify(false)
	child, output, err := start(context)
	if err != nil {
		return exit.With(exit.Failed, fmt.Errorf("-d: %w", err))
	}
	interrupted := false
	said, ended := make(chan starting, 1), make(chan error, 1)
	go func() { said <- readStarting(output) }()
	for {
		select {
		case <-signals.Stop:
			interrupted = true
			child.Signal(syscall.SIGTERM)
		case s := <-said:
			if s.ready && !interrupted {
				async.AtMost(async.OutputWait, func() { stdout.Write(s.text) })
				return nil
			}
			if !s.ready {
				async.Briefly(func() { stderr.Write(s.text) })
			}
			go func() { ended <- waitFor(child, interrupted) }()
		case err := <-ended:
			return err
		}
	}
}

func start(context *daemon.Context) (child *os.Process, output *os.File, err error) {
	output, input, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	context.SetLogFile(input) // Reborn closes it, so that only the child has it
	child, err = context.Reborn()
	return child, output, err
}

// starting is the output of a child until it is ready or has ended.
type starting struct {
	text  []byte
	ready bool
}

func readStarting(output io.Reader) starting {
	text, err := bufio.NewReader(output).ReadBytes(readyMark)
	return starting{bytes.TrimSuffix(text, []byte{readyMark}), err == nil}
}

// waitFor waits for the end of a child that failed or was stopped, and reports how it ended unless the child
// did.
func waitFor(child *os.Process, interrupted bool) error {
	state, err := child.Wait()
	switch {
	case err != nil:
		return exit.With(exit.Failed, fmt.Errorf("-d: %w", err))
	case interrupted:
		return exit.With(exit.Interrupted, errors.New("interrupted: the service is stopped again"))
	case state.ExitCode() <= 0: // ended by a signal
		return exit.With(exit.Failed, fmt.Errorf("the service ended before it was ready: %s", state))
	}
	return exit.With(state.ExitCode(), nil)
}

// detach signals the parent that the service is ready, then leaves the pipe and the current
// directory.
func detach(s *service) error {
	s.log.DrainConsole() // its lines must come before the mark; the parent reads them
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	if err := recordCrashes(s.config.Delayer.ErrorLog); err != nil {
		return err
	}
	if _, err := os.Stdout.Write([]byte{readyMark}); err != nil {
		return fmt.Errorf("the process that started the service has gone: %w", err)
	}
	s.folder, _ = os.Getwd()
	os.Chdir("/") // a file system in use can't be unmounted
	return errors.Join(unix.Dup2(int(null.Fd()), 1), unix.Dup2(int(null.Fd()), 2))
}

// recordCrashes copies the trace of a crash to the error log as well: to the file that has its name now.
func recordCrashes(errorLog string) error {
	if info, err := os.Stat(errorLog); err != nil || !info.Mode().IsRegular() { // opening a pipe might block
		return nil
	}
	f, err := os.OpenFile(errorLog, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return debug.SetCrashOutput(f, debug.CrashOptions{})
}
