package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/internal/async"
	"github.com/mix-basic/delayer/internal/exit"
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

// many is a request that changes many jobs.
type many struct {
	request
	what    string
	deletes bool // or changes: it needs --confirm where nobody can be asked
	limit   int  // the most jobs; 0: no limit
}

// many makes the request. Where it may change many jobs by mistake, it counts them first, and asks.
func (s consent) many(ctx context.Context, c *call, m many) (reply, error) {
	if m.deletes || s.dryRun || s.most > 0 || s.asks(c) {
		n, err := c.change(ctx, m, true)
		if err != nil {
			return reply{}, err
		}
		if agreed, err := s.given(ctx, c, n, m.deletes); !agreed {
			return s.counted(m.what, n), err
		}
		m.limit = n // leaves out jobs that have come since
	}
	n, err := c.change(ctx, m, false)
	return s.counted(m.what, n), err
}

// change makes the request, and returns how many jobs it has changed or, in a dry run, would change. The error of a request that ended
// early has that number, too.
func (c *call) change(ctx context.Context, m many, dryRun bool) (int, error) {
	r := m.request
	if dryRun {
		r = r.with("dry_run", "true")
	}
	switch {
	case m.limit == 0:
	case r.body != nil && r.method == http.MethodPost:
		r.body = &fields{slices.Clone(r.body.members), r.body.from, r.body.flags}
		r.body.put("limit", "--limit", m.limit)
	default:
		r = r.with("limit", strconv.Itoa(m.limit))
	}
	o, err := c.ask(ctx, r)
	n := numberOf(o.Get("count"))
	if wrong, is := o.Get("problem").(view.Object); is {
		if err = c.refused(wrong, r.body); n > 0 {
			err = fmt.Errorf("%w\nothers are %s: %v", err, m.what, n)
		}
	}
	return int(n), err
}

// given reports whether n jobs may be changed. Without --confirm it asks on a terminal; elsewhere a required --confirm that is
// missing is an error.
func (s consent) given(ctx context.Context, c *call, n int, required bool) (bool, error) {
	switch {
	case s.dryRun:
		return false, nil
	case s.asks(c) && n > 0:
		return c.confirm(ctx, n)
	case s.most == 0 && required && n > 0:
		return false, exit.With(exit.Usage, fmt.Errorf("%s: jobs that it would change: %d; add --confirm %[2]d, or --dry-run to change nothing", c.command.name, n))
	case s.most > 0 && n > s.most:
		return false, exit.With(exit.Failed, fmt.Errorf("%s: jobs that it would change: %d, more than the %d of --confirm; nothing was changed", c.command.name, n, s.most))
	}
	return n > 0, nil
}

// asks reports whether there is a person to ask, and no answer on the command line.
func (s consent) asks(c *call) bool {
	return s.most == 0 && !s.dryRun && isTerminal(os.Stdin) && isTerminal(c.stderr)
}

// confirm asks for the number of jobs, which nobody types by mistake. Any other answer is an error.
func (c *call) confirm(ctx context.Context, n int) (bool, error) {
	fmt.Fprintf(c.stderr, "%s: jobs that it would change: %d; type %[2]d to confirm: ", c.command.name, n)
	answer := ""
	err := async.Await(ctx, func() (err error) {
		answer, err = bufio.NewReader(os.Stdin).ReadString('\n')
		return err
	})
	switch {
	case ctx.Err() != nil:
		return false, ctx.Err()
	case err != nil && err != io.EOF:
		return false, exit.With(exit.Failed, fmt.Errorf("%s: the answer can't be read, nothing was changed: %w", c.command.name, err))
	case strings.TrimSpace(answer) != strconv.Itoa(n):
		return false, exit.With(exit.Failed, fmt.Errorf("%s: not confirmed, nothing was changed", c.command.name))
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
