package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/internal/view"
)

// consent holds the flags of a command that changes many jobs.
type consent struct {
	dryRun bool
	most   int // --confirm
}

func (s *consent) define(f *flagSet) {
	f.toggle("dry-run", &s.dryRun)
	f.number("confirm", &s.most, math.MaxInt32)
}

// given reports whether n jobs may be changed. Without --confirm it asks on a terminal; elsewhere a required --confirm that is
// missing is an error.
func (s consent) given(ctx context.Context, c *call, n int, required bool) (bool, error) {
	switch {
	case s.dryRun:
		return false, nil
	case s.asks(c) && n > 0:
		return c.ask(ctx, n)
	case s.most == 0 && required && n > 0:
		return false, fail(exitUsage, fmt.Errorf("%s: jobs that it would change: %d; add --confirm %[2]d, or --dry-run to change nothing", c.command.name, n))
	case s.most > 0 && n > s.most:
		return false, fail(exitFailed, fmt.Errorf("%s: jobs that it would change: %d, more than the %d of --confirm; nothing was changed", c.command.name, n, s.most))
	}
	return n > 0, nil
}

// asks reports whether there is a person to ask, and no answer on the command line.
func (s consent) asks(c *call) bool {
	return s.most == 0 && !s.dryRun && isTerminal(os.Stdin) && isTerminal(c.stderr)
}

// ask asks for the number of jobs, which nobody types by mistake. Any other answer is an error.
func (c *call) ask(ctx context.Context, n int) (bool, error) {
	fmt.Fprintf(c.stderr, "%s: jobs that it would change: %d; type %[2]d to confirm: ", c.command.name, n)
	answer := ""
	err := await(ctx, func() (err error) {
		answer, err = bufio.NewReader(os.Stdin).ReadString('\n')
		return err
	})
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil && err != io.EOF:
		return false, fail(exitFailed, fmt.Errorf("%s: the answer can't be read, nothing was changed: %w", c.command.name, err))
	case strings.TrimSpace(answer) != strconv.Itoa(n):
		return false, fail(exitFailed, fmt.Errorf("%s: not confirmed, nothing was changed", c.command.name))
	}
	return true, nil
}

// isTerminal reports whether a file is a terminal, and not the null device, which isScreen takes for one.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	null, _ := os.Stat(os.DevNull)
	return err == nil && isScreen(f) && (null == nil || !os.SameFile(info, null))
}

// counted returns the reply of a command that changed n jobs, or would change them.
func (s consent) counted(what string, n int) reply {
	o := view.Of("count", n, "complete", true)
	if s.dryRun {
		return reply{text: fmt.Sprintf("would be %s: %d", what, n), json: append(o, view.Of("dry_run", true)...)}
	}
	return reply{text: fmt.Sprintf("%s %d", what, n), json: o}
}
