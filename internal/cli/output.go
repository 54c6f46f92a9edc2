package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/async"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/view"
)

// reply is a command's output: rows or text, and json with --json.
type reply struct {
	rows *rows
	text string
	json view.Object
	job  *client.Delivery // acknowledged after printing; nil: none
	safe bool             // the command changed nothing and can be repeated
}

const timeFormat = "2006/01/02 15:04:05.000"

// print prints the reply. Its error describes what happened to the job.
func (c *call) print(ctx context.Context, r reply) error {
	switch {
	case r.rows != nil:
		return c.printRows(ctx, r.rows)
	case r.text == "" && r.json == nil:
		return nil
	}
	text := r.text
	if c.json && r.json != nil {
		text = jsonLine(r.json)
	}
	free := hold(ctx, r.job)
	err := c.printLast(ctx, text)
	free()
	switch {
	case r.job != nil:
		return settle(ctx, r.job, err)
	case err != nil && r.json != nil && !r.safe:
		if len(r.json) > 0 {
			text = jsonLine(r.json)
		}
		return fmt.Errorf("%w; not printed: %s", err, text)
	}
	return err
}

// printLast prints the end of the reply and a final line break.
func (c *call) printLast(ctx context.Context, text string) error {
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return awaitOutput(ctx, func() error { return printOut(c.stdout, c.shown(text)) })
}

// write prints a part of the reply.
func (c *call) write(ctx context.Context, text string) error {
	return awaitOutput(ctx, func() error {
		_, err := io.WriteString(c.stdout, c.shown(text))
		return outputError(err)
	})
}

// note prints a note on standard error.
func (c *call) note(text string) { async.Briefly(func() { fmt.Fprintln(c.stderr, "Note: "+text) }) }

// awaitOutput waits for f, which prints, until shortly after ctx is done.
func awaitOutput(ctx context.Context, f func() error) error {
	err := async.Await(endLater(ctx, async.OutputWait), f)
	if errors.Is(err, context.Canceled) {
		return exit.With(exit.Output, errors.New("output: it is not read"))
	}
	return err
}

// shown returns the text in the form for standard output.
func (c *call) shown(text string) string {
	if isScreen(c.stdout) {
		text = printable(text, "\n\t")
	}
	return text
}

// printOut writes the text and closes standard output, because some errors only appear on closing.
func printOut(stdout *os.File, text string) error {
	_, err := io.WriteString(stdout, text)
	return outputError(errors.Join(err, stdout.Close()))
}

func outputError(err error) error {
	if err != nil {
		return exit.With(exit.Output, fmt.Errorf("output: %w", err))
	}
	return nil
}

// endLater returns a context that is done some time after ctx.
func endLater(ctx context.Context, wait time.Duration) context.Context {
	later, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(wait, end) })
	return later
}

// isScreen reports whether a file is a terminal.
func isScreen(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// printable replaces control characters that a terminal would act on. JSON stays JSON.
func printable(text, keep string) string {
	var b strings.Builder
	for i, r := range text {
		switch _, size := utf8.DecodeRuneInString(text[i:]); {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case unicode.IsControl(r) && !strings.ContainsRune(keep, r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

func jsonLine(v any) string { return strings.TrimSuffix(string(view.Encode(v)), "\n") }

func messageJSON(m client.Message) view.Object {
	o := view.Of("id", m.ID, "topic", m.Topic)
	o.Headers(m.Headers)
	o.Put("body", m.Body)
	return o
}

// progress shows how far a long command is: a bar on a terminal, otherwise an occasional line.
type progress struct {
	to      *os.File
	redraws bool
	every   time.Duration
	shown   time.Time
	width   int // width of the bar on the screen
}

func newProgress(to *os.File) *progress {
	if isScreen(to) {
		return &progress{to: to, redraws: true, every: redrawn}
	}
	return &progress{to: to, every: lineEvery, shown: time.Now()}
}

const (
	barWidth  = 30
	redrawn   = 100 * time.Millisecond
	lineEvery = 10 * time.Second
)

// show shows the text behind a bar for the done part of all. It shows it seldom, and no bar if all is 0.
func (p *progress) show(done, all int, text string) {
	if time.Since(p.shown) < p.every {
		return
	}
	p.shown = time.Now()
	if !p.redraws {
		async.Briefly(func() { fmt.Fprintln(p.to, text) })
		return
	}
	if all > 0 {
		n := barWidth * min(done, all) / all
		text = "[" + strings.Repeat("#", n) + strings.Repeat(".", barWidth-n) + "] " + text
	}
	async.Briefly(func() { fmt.Fprintf(p.to, "\r%-*s", p.width, text) })
	p.width = max(p.width, len(text))
}

// end clears the bar.
func (p *progress) end() {
	if p.width > 0 {
		async.Briefly(func() { fmt.Fprintf(p.to, "\r%*s\r", p.width, "") })
	}
}
