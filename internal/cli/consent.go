package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
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

// bounded returns the request for at most n jobs.
func (m many) bounded(n int) request {
	r := m.request
	r.query = maps.Clone(r.query)
	if r.query == nil {
		r.query = url.Values{}
	}
	switch {
	case n == 0:
	case r.body != nil && r.method == http.MethodPost:
		r.body = &fields{slices.Clone(r.body.members), r.body.from, r.body.flags}
		r.body.put("limit", "--limit", n)
	default:
		r.query.Set("limit", strconv.Itoa(n))
	}
	return r
}

// many makes the request. Where it may change many jobs by mistake, it counts them first, and asks.
func (s consent) many(ctx context.Context, c *call, m many) (reply, error) {
	r := m.bounded(m.limit)
	if m.deletes || s.dryRun || s.most > 0 || s.asks(c) {
		r.query.Set("dry_run", "true")
		o, err := c.ask(ctx, r)
		n := int(numberOf(o.Get("count")))
		if err == nil {
			err = c.ended(o, m.what, r.body)
		}
		if err != nil {
			return reply{}, err
		}
		if agreed, err := s.given(ctx, c, n, m.deletes); !agreed {
			return s.counted(m.what, n), err
		}
		r = m.bounded(n) // leaves out jobs that have come since
	}
	o, err := c.ask(ctx, r)
	if err == nil {
		err = c.ended(o, m.what, r.body)
	}
	return s.counted(m.what, int(numberOf(o.Get("count")))), err
}

// ended returns why a request on many jobs ended early, and how many it has changed; nil if it did all.
func (c *call) ended(o view.Object, what string, sent *fields) error {
	wrong, is := o.Get("problem").(view.Object)
	if !is {
		return nil
	}
	err := c.refused(wrong, sent)
	if n := numberOf(o.Get("count")); n > 0 {
		err = fmt.Errorf("%w\nothers are %s: %v", err, what, n)
	}
	return err
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
