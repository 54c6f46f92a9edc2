package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mix-basic/delayer/client"
)

// listPiece is how much of a list is printed at a time.
const listPiece = 64 << 10

func runDeadList(ctx context.Context, c *call) (reply, error) {
	var piece strings.Builder
	for letter, err := range c.client.Dead(ctx, c.arguments[0]) {
		if err != nil {
			return reply{}, err
		}
		piece.WriteString(c.letterLine(letter))
		if piece.Len() >= listPiece {
			if err := c.write(ctx, piece.String()); err != nil {
				return reply{}, err
			}
			piece.Reset()
		}
	}
	return reply{text: piece.String()}, nil
}

// letterLine is what the list says of a dead letter.
func (c *call) letterLine(d client.DeadLetter) string {
	if c.json {
		v := messageJSON(d.Message)
		v["died"] = d.Died.UTC()
		v["attempts"] = d.Attempts
		putIfAny(v, "reason", d.Reason)
		putIfAny(v, "error", d.Error)
		return jsonLine(v) + "\n"
	}
	return fmt.Sprintf("%s\t%s\t%d\t%s\t%s\n", printable(d.ID, ""), d.Died.Format(timeFormat), d.Attempts,
		printable(inOneLine(d.Reason), ""), printable(inOneLine(d.Error), ""))
}

// inOneLine is the first line of a text and the last: errors begin or end with what tells the most.
func inOneLine(text string) string {
	text = strings.TrimSpace(text)
	first, others, more := strings.Cut(text, "\n")
	if !more {
		return first
	}
	return strings.TrimSpace(first) + " … " + strings.TrimSpace(others[strings.LastIndexByte(others, '\n')+1:])
}

func runDeadRequeue(ctx context.Context, c *call) (reply, error) {
	topic := c.arguments[0]
	if len(c.arguments) > 1 {
		return counted("requeued", 1), c.requeue(ctx, topic, c.arguments[1])
	}
	n, err := c.client.RequeueAll(ctx, topic)
	switch {
	case err != nil && n > 0:
		err = fmt.Errorf("%w\nothers are requeued: %d", err, n)
	case err == nil && n == 0:
		err = c.noLetter()
	}
	return counted("requeued", n), err
}

// requeue makes a job of one dead letter again, if it is of that topic.
func (c *call) requeue(ctx context.Context, topic, id string) error {
	job, err := c.client.Get(ctx, id)
	if err == nil && job.State == client.Dead && job.Topic != topic {
		return c.noLetter()
	}
	if err == nil {
		err = c.client.Requeue(ctx, id) // which does nothing as long as there is a job of that ID
	}
	if errors.Is(err, client.ErrNotFound) {
		return c.noLetter()
	}
	return err
}

func runDeadDrop(ctx context.Context, c *call) (_ reply, err error) {
	topic, ids, n := c.arguments[0], c.arguments[1:], 0
	if len(ids) == 0 {
		n, err = c.client.DropAllDead(ctx, topic)
	} else {
		n, err = c.client.DropDead(ctx, topic, ids...)
	}
	if err == nil && n == 0 {
		err = c.noLetter()
	}
	return counted("dropped", n), err
}

func counted(what string, n int) reply {
	return reply{text: fmt.Sprintf("%s %d", what, n), json: map[string]any{what: n}}
}

var errNoLetter = errors.New("no such dead letter")

// noLetter names what a command was to find.
func (c *call) noLetter() error {
	words := strings.Trim(fmt.Sprintf("%q", c.arguments), "[]")
	return fmt.Errorf("%s %s: %w", c.command.name, words, errNoLetter)
}
