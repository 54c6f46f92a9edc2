package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/async"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/view"
	"github.com/mix-basic/delayer/internal/web/api"
)

// operation returns the action of a command without flags: a request, whose body has these members, and what the command prints after
// it.
func operation(method, path string, shown func(*call, view.Object) reply, members ...any) func(*flagSet) action {
	return only(func(ctx context.Context, c *call) (reply, error) {
		r := request{method: method, path: path}
		if len(members) > 0 {
			r.body = &fields{members: view.Of(members...)}
		}
		o, err := c.ask(ctx, r)
		if err != nil {
			return reply{}, err
		}
		return shown(c, o), nil
	})
}

// says returns a reply with the answer: the words and the command's first argument.
func (c *call) says(words string, o view.Object) reply {
	if o == nil {
		o = view.Object{}
	}
	return reply{text: words + " " + printable(c.arguments[0], ""), json: o}
}

// done is says for a command that changed something.
func done(words string) func(*call, view.Object) reply {
	return func(c *call, o view.Object) reply { return c.says(words, o) }
}

func resumed(c *call, o view.Object) reply {
	if o.Get("was_paused") == true {
		return c.says("resumed", o)
	}
	return c.says("was not paused:", o)
}

// shownID prints the ID in an answer.
func shownID(_ *call, o view.Object) reply { return reply{text: o.TextOf("id"), json: o} }

func beginPush(f *flagSet) action {
	b := newFields()
	var headers map[string]string
	var follow bool
	f.headers(&headers)
	f.toggle("follow", &follow)
	f.texts(b, "id", "once", "debounce", "group", "quiet group_quiet", "longest group_longest", "lease", "replicas-timeout")
	f.counts(b, "max group_max", "max-attempts", "replicas")
	return func(ctx context.Context, c *call) (reply, error) {
		if err := notClosed(c.stdout); err != nil { // otherwise the ID would be lost
			return reply{}, outputError(err)
		}
		body, err := bodyOf(ctx, c.arguments[2])
		if err != nil {
			return reply{}, err
		}
		b.put("topic", "TOPIC", c.arguments[0])
		if _, grouped := c.given["group"]; !grouped {
			b.put("delay", fmt.Sprintf("DELAY %q", c.arguments[1]), c.arguments[1])
		} else if delay, err := duration.Parse(c.arguments[1]); err != nil || delay != 0 {
			return reply{}, exit.With(exit.Usage, fmt.Errorf("push: DELAY %q: want 0 with --group", c.arguments[1]))
		}
		b.put("body", "BODY", body)
		b.members.Headers(headers)
		if follow {
			b.put("if_exists", "--follow", "follow")
		}
		o, err := c.ask(ctx, request{method: http.MethodPost, path: "/v1/jobs", body: b})
		if _, once := c.given["once"]; once && isProblem(err, "exists") { // still a success: the job was pushed
			id := b.members.TextOf("id")
			c.note(fmt.Sprintf("a push of %q counted before; this one changed nothing.", id))
			o, err = view.Of("id", id, "outcome", client.OutcomeRefused), nil
		}
		return shownID(c, o), err
	}
}

// bodyOf returns the body given by an argument. A - stands for standard input.
func bodyOf(ctx context.Context, argument string) (body string, err error) {
	if argument != "-" {
		return argument, nil
	}
	var data []byte
	err = async.Await(ctx, func() (err error) {
		data, err = io.ReadAll(os.Stdin)
		return err
	})
	if err != nil && ctx.Err() == nil {
		err = exit.With(exit.Usage, fmt.Errorf("BODY from standard input: %w", err))
	}
	return string(data), err
}

func runGet(ctx context.Context, c *call) (reply, error) {
	o, err := c.ask(ctx, request{path: "/v1/jobs/{id}"})
	if err != nil {
		return reply{}, err
	}
	if state := o.TextOf("state"); state == string(client.StateReady) || state == string(client.StateWaiting) {
		if why := c.obstacle(ctx, o.TextOf("topic")); why != "" {
			c.note(why)
		}
	}
	text := inLines(o, "error", "body")
	if failed := o.TextOf("error"); failed != "" {
		text += "error:         " + indented(failed) + "\n"
	}
	return reply{text: text + "body:          " + o.TextOf("body"), json: o, safe: true}, nil
}

// indented indents the further lines of a text, so that they can't be mistaken for other output.
func indented(text string) string {
	return strings.ReplaceAll(printable(strings.TrimRight(text, "\n"), "\n\t"), "\n", "\n"+strings.Repeat(" ", 15))
}

func beginPause(f *flagSet) action {
	b := newFields()
	var replace bool
	f.texts(b, "for", "note")
	f.toggle("replace", &replace)
	return func(ctx context.Context, c *call) (reply, error) {
		b.put("unless_paused", "--replace", !replace)
		o, err := c.ask(ctx, request{method: http.MethodPost, path: "/v1/topics/{topic}/pause", body: b})
		if isProblem(err, "paused") {
			now := ""
			if topic, err := c.ask(ctx, request{path: "/v1/topics/{topic}"}); err == nil {
				now = pauseText(topic)
			}
			err = exit.With(exit.Usage, fmt.Errorf("pause %q: it is paused already%s; add --replace to give it another end and note", c.arguments[0], now))
		}
		return c.says("paused", o), err
	}
}

func beginLimit(f *flagSet) action {
	b := newFields()
	var none bool
	f.texts(b, "tag")
	f.counts(b, "concurrency", "burst")
	f.fields(b, []string{"rate"}, func(value string) (any, error) {
		rate, err := duration.ParseRate(value)
		return rate, err
	})
	f.toggle("none", &none)
	f.check = func([]string) error {
		if none && len(b.members) > 0 {
			return errors.New("--none does not go with a limit")
		}
		return nil
	}
	return func(ctx context.Context, c *call) (reply, error) {
		r := request{path: "/v1/topics/{topic}/limit"}
		switch {
		case none:
			r.method = http.MethodDelete
		case len(b.members) > 0:
			r.method, r.body = http.MethodPut, b
		}
		o, err := c.ask(ctx, r)
		if none {
			o = view.Of("topic", c.arguments[0])
		}
		limit := members(o, "concurrency", "rate", "burst", "tag")
		text := cmp.Or(cells(limit), "no limit")
		if used := useText(o); used != "" {
			text += "; " + used
		}
		if lacking := untaggedText(o, limit); lacking != "" {
			text += "; " + lacking
		}
		return reply{text: printable(c.arguments[0], "") + ": " + text, json: o, safe: r.method == ""}, err
	}
}

// obstacle describes why the topic's ready jobs are not delivered: a pause, a limit, or both. It is empty without
// such a reason, or if it can't be read.
func (c *call) obstacle(ctx context.Context, topic string) string {
	o, err := c.ask(ctx, request{path: "/v1/topics/" + api.Escape(topic)})
	if err != nil {
		return ""
	}
	var parts []string
	if o.Get("paused") != nil {
		parts = append(parts, "the topic is paused"+pauseText(o))
	}
	limit, _ := o.Get("limit").(view.Object)
	if numberOf(o.Get("throttled")) > 0 {
		parts = append(parts, "its limit has been reached ("+useText(o)+")")
	} else if lacking := untaggedText(o, limit); lacking != "" {
		parts = append(parts, lacking)
	}
	return strings.Join(parts, ", and ")
}

// explained adds the reason why ready jobs are not delivered to the error of a pop that found no
// job.
func (c *call) explained(ctx context.Context, topic string, err error) error {
	if errors.Is(err, client.ErrEmpty) {
		if why := c.obstacle(ctx, topic); why != "" {
			return fmt.Errorf("%w; %s", err, why)
		}
	}
	return err
}

// pauseText describes the start, the end and the note of a topic's pause.
func pauseText(topic view.Object) string {
	p, _ := topic.Get("paused").(view.Object)
	text := ", as consumers throttle it"
	if since := p.Get("since"); since != nil {
		text = " since " + cell("since", since)
	}
	end := timeOf(p.Get("until"))
	if throttled := timeOf(p.Get("throttled_until")); throttled.After(end) && (p.Get("since") == nil || !end.IsZero()) {
		end = throttled
	}
	if !end.IsZero() {
		text += ", until " + end.Local().Format(timeFormat)
	}
	if note := p.TextOf("note"); note != "" {
		text += ": " + printable(exit.OneLine(note), "")
	}
	return text
}

// useText describes the use of a limit, not counting jobs that lack the tag.
func useText(o view.Object) string {
	return cells(members(o, "slots_taken", "throttled", "throttled_until"))
}

// members returns the object with only the members of these names.
func members(o view.Object, names ...string) view.Object {
	return slices.DeleteFunc(slices.Clone(o), func(m view.Member) bool {
		return !slices.Contains(names, strings.TrimSuffix(m.Name, "_base64"))
	})
}

// untaggedText warns that some jobs can't be reserved, and suggests a fix; it is empty if there are none.
func untaggedText(o, limit view.Object) string {
	if numberOf(o.Get("untagged")) <= 0 {
		return ""
	}
	return fmt.Sprintf("ready jobs without the tag %s, which nobody will get: %v; set a limit without a tag, or push them again with that tag in their IDs",
		printable(limit.TextOf("tag"), ""), o.Get("untagged"))
}

// beginChange prepares a command that removes or reschedules a job or, with --topic and --match, the jobs of a topic.
func beginChange(method, what string) func(*flagSet) action {
	return func(f *flagSet) action {
		var topic string
		var selected selection
		var s consent
		var unlessReserved bool
		f.text("topic", &topic)
		selected.define(f)
		s.define(f)
		if method == http.MethodDelete {
			f.toggle("unless-reserved", &unlessReserved)
		}
		f.check = func(arguments []string) error {
			ids, one, many := len(arguments), "ID", "--topic and --match"
			if method == http.MethodPatch {
				ids, one, many = ids-1, "ID DELAY", "DELAY with --topic and --match"
			}
			switch {
			case (topic == "") != (selected.match == ""):
				return errors.New("--topic and --match go together")
			case topic != "" && ids > 0:
				return fmt.Errorf("want %s or %s, not both", one, many)
			case topic == "" && ids == 0:
				return fmt.Errorf("too few arguments: want %s, or %s", one, many)
			case topic == "" && (s.dryRun || s.most > 0 || selected != (selection{})):
				return errors.New("--state, --limit, --dry-run and --confirm go with --topic and --match")
			case topic != "" && unlessReserved:
				return errors.New("--unless-reserved does not go with --topic and --match")
			}
			return nil
		}
		return func(ctx context.Context, c *call) (reply, error) {
			r := request{method: method, path: "/v1/jobs/{id}"}
			if topic != "" {
				r = request{method: method, path: "/v1/topics/{topic}/jobs"}.with("match", selected.match, "state", selected.state)
				c.arguments = slices.Insert(c.arguments, 0, topic) // in place of the ID
			}
			if len(c.arguments) > 1 {
				r.body = newFields()
				r.body.put("delay", fmt.Sprintf("DELAY %q", c.arguments[1]), c.arguments[1])
			}
			if topic != "" {
				return s.many(ctx, c, many{what: what, request: r, deletes: true, limit: selected.most})
			}
			if unlessReserved {
				r = r.with("unless_reserved", "true")
			}
			o, err := c.ask(ctx, r)
			said := c.says(what, o)
			if was := o.TextOf("was"); was != "" {
				said.text += ", which was " + was
			}
			return said, err
		}
	}
}

func beginPurge(f *flagSet) action {
	var s consent
	s.define(f)
	return func(ctx context.Context, c *call) (reply, error) {
		r := request{method: http.MethodDelete, path: "/v1/topics/{topic}/ready"}
		return s.many(ctx, c, many{what: "purged", request: r, deletes: true})
	}
}
