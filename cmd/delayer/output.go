package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mix-basic/delayer/client"
)

// reply is what a command prints.
type reply struct {
	text string
	json map[string]any   // of --json
	job  *client.Delivery // acknowledged once it is printed; nil: none
	safe bool             // the command changed nothing and can be repeated
}

// outputWait is how long an interrupted command goes on with an output that is
// not read.
const outputWait = time.Second

// print prints the reply. Its error says what has become of the job.
func (c *call) print(ctx context.Context, r reply) error {
	free := hold(ctx, r.job)
	err := awaitOutput(ctx, func() error { return printOut(c.stdout, c.format(r)) })
	free()
	switch {
	case r.job != nil:
		return settle(ctx, r.job, err)
	case err != nil && r.json != nil && !r.safe:
		return fmt.Errorf("%w; not printed: %s", err, jsonLine(r.json))
	}
	return err
}

// write prints a part of the reply, of whole lines.
func (c *call) write(ctx context.Context, text string) error {
	return awaitOutput(ctx, func() error {
		_, err := io.WriteString(c.stdout, c.shown(text))
		return outputError(err)
	})
}

// awaitOutput waits for f, which prints, and not much longer than ctx.
func awaitOutput(ctx context.Context, f func() error) error {
	err := await(endLater(ctx, outputWait), f)
	if errors.Is(err, context.Canceled) {
		return fail(exitOutput, errors.New("output: it is not read"))
	}
	return err
}

func (c *call) format(r reply) string {
	text := r.text
	if c.json && r.json != nil {
		text = jsonLine(r.json)
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return c.shown(text)
}

// shown is the text as the standard output gets it.
func (c *call) shown(text string) string {
	if isScreen(c.stdout) {
		text = printable(text, "\n\t")
	}
	return text
}

// printOut writes the text and closes the standard output: only then are all errors known.
func printOut(stdout *os.File, text string) error {
	_, err := io.WriteString(stdout, text)
	return outputError(errors.Join(err, stdout.Close()))
}

func outputError(err error) error {
	if err != nil {
		return fail(exitOutput, fmt.Errorf("output: %w", err))
	}
	return nil
}

// await waits for f, which takes no context, until ctx is done.
func await(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endLater returns a context that is done some time after ctx is.
func endLater(ctx context.Context, wait time.Duration) context.Context {
	later, end := context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { time.AfterFunc(wait, end) })
	return later
}

// printable replaces what a terminal would act on. JSON stays JSON by it.
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

func jsonLine(v map[string]any) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.Encode(v) // strings, numbers and times: can't fail
	return strings.TrimSuffix(b.String(), "\n")
}

// put enters a value that may be no UTF-8 text: as base64 under key_base64 then.
func put(v map[string]any, key, value string) {
	if utf8.ValidString(value) {
		v[key] = value
	} else {
		v[key+"_base64"] = []byte(value)
	}
}

func messageJSON(m client.Message) map[string]any {
	v := map[string]any{}
	put(v, "id", m.ID)
	put(v, "topic", m.Topic)
	put(v, "body", m.Body)
	return v
}

func idJSON(id string) map[string]any {
	v := map[string]any{}
	put(v, "id", id)
	return v
}

func jobJSON(job client.Job) map[string]any {
	v := messageJSON(job.Message)
	v["state"] = job.State
	if !job.Due.IsZero() {
		v[dueNames[job.State].key] = job.Due.UTC()
	}
	if job.TTL >= 0 {
		v["ttl_seconds"] = job.TTL.Seconds()
	}
	if job.Attempts > 0 {
		v["attempts"] = job.Attempts
	}
	if job.MaxAttempts > 0 {
		v["max_attempts"] = job.MaxAttempts
	}
	if job.Followed {
		v["followed"] = true
	}
	putIfAny(v, "reason", job.Reason)
	putIfAny(v, "error", job.Error)
	return v
}

// dueNames say what a job's Due is.
var dueNames = map[client.State]struct{ key, text string }{
	client.Waiting:  {"due", "due"},
	client.Reserved: {"lease_ends", "lease ends"},
	client.Dead:     {"died", "since"},
}

func putIfAny(v map[string]any, key, value string) {
	if value != "" {
		put(v, key, value)
	}
}

const timeFormat = "2006/01/02 15:04:05.000"

func jobText(job client.Job, keeps obstacle) string {
	state := string(job.State)
	if !job.Due.IsZero() {
		state += ", " + dueNames[job.State].text + " " + job.Due.Format(timeFormat)
	}
	kept := "for ever"
	switch {
	case job.TTL >= 0:
		kept = "for another " + job.TTL.Round(time.Second).String()
	case job.State == client.Dead:
		kept = "as long as the daemon's dead_max_age says"
	}
	text := fmt.Sprintf("id:    %s\ntopic: %s\nstate: %s\nkept:  %s\n", printable(job.ID, ""), printable(job.Topic, ""), state, kept)
	if why := keeps.text(); why != "" {
		text += "note:  " + why + "\n"
	}
	switch {
	case job.MaxAttempts > 0:
		text += fmt.Sprintf("attempts: %d of %d\n", job.Attempts, job.MaxAttempts)
	case job.Attempts > 0:
		text += fmt.Sprintf("attempts: %d\n", job.Attempts)
	}
	if job.Followed {
		text += "followed by another one, which takes its place when it is done\n"
	}
	if job.Reason != "" {
		text += "reason: " + indented(job.Reason) + "\n"
	}
	if job.Error != "" {
		text += "error: " + indented(job.Error) + "\n"
	}
	return text + "body:  " + job.Body
}

// indented is a text whose further lines can't pass for others.
func indented(text string) string {
	return strings.ReplaceAll(printable(strings.TrimRight(text, "\n"), "\n\t"), "\n", "\n       ")
}
