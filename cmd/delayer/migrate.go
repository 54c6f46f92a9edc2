package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/view"
)

func beginMigrate(f *flagSet) action {
	var noWait bool
	f.toggle("no-wait", &noWait)
	return func(ctx context.Context, c *call) (reply, error) { return c.migrate(ctx, !noWait) }
}

// migrate migrates the jobs and, if waits is set, waits for reserved ones.
func (c *call) migrate(ctx context.Context, waits bool) (reply, error) {
	if c.redis.PreviousPartitions == 0 {
		return reply{}, fail(exitUsage, errors.New("migrate: redis.previous_partitions is not set: want the number of partitions in the previous layout"))
	}
	bar := &progress{to: c.stderr, redraws: isScreen(c.stderr)}
	sum, err := c.jobs.Migrate(ctx, waits, bar.show)
	bar.end()
	if err != nil {
		return reply{}, unfinished(sum, err)
	}
	text := fmt.Sprintf("moved %d\nnothing is left in the previous partitions: remove previous_partitions", sum.Stored)
	if sum.Superseded > 0 {
		text = fmt.Sprintf("dropped %d, of which there are later ones of the same ID\n", sum.Superseded) + text
	}
	return reply{text: text, json: view.Of("moved", sum.Stored, "superseded", sum.Superseded)}, nil
}

// unfinished reports how far the migration came and how to continue it.
func unfinished(sum inspect.Migration, err error) error {
	left := sum.Left + sum.Reserved
	switch {
	case errors.Is(err, inspect.ErrReserved):
		return fail(exitFailed, fmt.Errorf("migrate: moved %d, and %d are reserved: begin again when they are ready, or done", sum.Stored, sum.Reserved))
	case errors.Is(err, context.Canceled):
		return fail(exitInterrupted, fmt.Errorf("migrate: stopped; moved %d, about %d are left: begin again to go on", sum.Stored, left))
	case sum.Stored > 0:
		return fmt.Errorf("%w\nmoved %d, about %d are left: begin again to go on", err, sum.Stored, left)
	}
	return err
}

// progress shows the progress of a migration: a bar on a terminal, otherwise an occasional line.
type progress struct {
	to      *os.File
	redraws bool
	shown   time.Time
	width   int // width of the bar on the screen
}

const (
	barWidth  = 30
	redrawn   = 100 * time.Millisecond
	lineEvery = 10 * time.Second
)

func (p *progress) show(m inspect.Migration) {
	every := lineEvery
	if p.redraws {
		every = redrawn
	}
	if p.shown.IsZero() && !p.redraws {
		p.shown = time.Now()
	}
	if time.Since(p.shown) < every {
		return
	}
	p.shown = time.Now()
	text := fmt.Sprintf("moved %d, about %d are left", m.Stored, m.Left)
	if m.Reserved > 0 {
		text += fmt.Sprintf(", and %d are reserved", m.Reserved)
	}
	if !p.redraws {
		briefly(func() { fmt.Fprintln(p.to, text) })
		return
	}
	done := barWidth * m.Stored / max(m.Stored+m.Left+m.Reserved, 1)
	text = "[" + strings.Repeat("#", done) + strings.Repeat(".", barWidth-done) + "] " + text
	briefly(func() { fmt.Fprintf(p.to, "\r%-*s", p.width, text) })
	p.width = len(text)
}

// end clears the bar.
func (p *progress) end() {
	if p.width > 0 {
		briefly(func() { fmt.Fprintf(p.to, "\r%*s\r", p.width, "") })
	}
}
