package cli

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/view"
)

// problem is an answer that says what went wrong, see RFC 9457.
type problem struct {
	kind string // last part of its type
	text string
}

func (p *problem) Error() string { return p.text }

// isProblem reports whether an answer was a problem of that kind.
func isProblem(err error, kind string) bool {
	p := new(problem)
	return errors.As(err, &p) && p.kind == kind
}

// noSuch is what a command did not find, by its first word.
var noSuch = map[string]string{"dead": "dead letter", "schedule": "schedule"}

// refused returns the error for a problem. It names the flag or argument that is wrong.
func (c *call) refused(o view.Object, sent *fields) error {
	kind := o.TextOf("type")
	p := &problem{kind: kind[strings.LastIndex(kind, ":")+1:]}
	words := strings.Trim(fmt.Sprintf("%q", c.arguments[:min(len(c.arguments), c.command.named())]), "[]")
	if id := o.TextOf("id"); id != "" {
		words = fmt.Sprintf("%q", id)
	}
	before := strings.TrimSpace(c.command.name + " " + words)
	detail := o.TextOf("detail")
	switch p.kind {
	case "bad-request", "invalid", "unsupported-media-type":
		name := strings.TrimSuffix(strings.TrimPrefix(o.TextOf("field"), "/"), "_base64")
		if sent != nil && name != "" {
			name = cmp.Or(sent.from[name], name)
			detail = sent.inFlags(detail)
		}
		if parameter := o.TextOf("parameter"); parameter != "" {
			name = strings.ToUpper(parameter)
			if value, given := c.given[parameter]; given {
				name = fmt.Sprintf("--%s %q", parameter, value)
			}
		}
		if p.text = strings.TrimPrefix(detail, "delayer: "); name != "" {
			p.text = name + ": " + p.text
		}
		if !strings.HasPrefix(p.text, c.command.name+":") {
			p.text = c.command.name + ": " + p.text
		}
		return exit.With(exit.Usage, p)
	case "not-found":
		first, _, _ := strings.Cut(c.command.name, " ")
		p.text = before + ": no such " + cmp.Or(noSuch[first], "job")
		return exit.With(exit.Nothing, p)
	case "exists", "other-topic", "reserved":
		p.text = before + ": " + detail
	case "unauthorized":
		p.text = fmt.Sprintf("%s wants a token: set DELAYER_TOKEN, or use --token-file", c.v1.name)
		return exit.With(exit.Usage, p)
	default:
		if len(c.v1.wrong) > 0 {
			return c.v1.wrong[0]
		}
		title := o.TextOf("title")
		p.text = before + ": " + strings.ToLower(title[:min(1, len(title))]) + title[min(1, len(title)):]
		if detail != "" {
			p.text += ": " + detail
		}
		if strings.HasPrefix(p.kind, "redis-") {
			return exit.With(exit.Redis, p)
		}
	}
	return exit.With(exit.Failed, p)
}

var memberName = regexp.MustCompile(`\b[a-z_]+\b`)

// inFlags returns a text about the body's members with their flags instead.
func (b *fields) inFlags(text string) string {
	return memberName.ReplaceAllStringFunc(text, func(word string) string { return cmp.Or(b.flags[word], word) })
}
