package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/view"
)

// letters holds the flags of a command that finds dead letters.
type letters struct {
	reason, error, match string
	older, newer         time.Duration
	most                 int
}

func (l *letters) define(f *flagSet) {
	f.text("reason", &l.reason)
	f.text("error", &l.error)
	f.duration("older", &l.older, store.MaxDelay)
	f.duration("newer", &l.newer, store.MaxDelay)
	f.text("match", &l.match)
	f.number("limit", &l.most, math.MaxInt32)
	f.check = func(arguments []string) error {
		if len(arguments) > 1 && *l != (letters{}) {
			return errors.New("want an ID or options that select dead letters, not both")
		}
		return nil
	}
}

// selection returns what selects the letters, names and values of /v1 in turn.
func (l letters) selection() []string {
	ago := func(d time.Duration) string {
		if d == 0 {
			return ""
		}
		return time.Now().Add(-d).Format(time.RFC3339Nano)
	}
	return []string{"reason", l.reason, "error", l.error, "match", l.match, "before", ago(l.older), "after", ago(l.newer)}
}

func beginDeadList(f *flagSet) action {
	var l letters
	l.define(f)
	return func(ctx context.Context, c *call) (reply, error) {
		r := request{path: "/v1/dead/{topic}"}.with(l.selection()...)
		return jobRows(c.pages(ctx, r, "jobs"), l.most, "id", "died", "attempts", "reason", "error"), nil
	}
}

func deadGroups(c *call, o view.Object) reply {
	r := c.listed(o, "groups", "count", "newest", "oldest", "reason", "error")
	r.rows.more = o[1:]
	if o.Get("complete") == false {
		r.rows.notes = append(r.rows.notes, fmt.Sprintf("only the newest %v dead letters were examined", o.Get("examined")))
	}
	return r
}

// beginDead prepares a command that changes dead letters: one by its ID, or the selected ones. Where nobody can be asked, one that deletes
// them needs --confirm.
func beginDead(what, path string, deletes bool) func(*flagSet) action {
	return func(f *flagSet) action {
		var l letters
		var s consent
		l.define(f)
		s.define(f)
		return func(ctx context.Context, c *call) (reply, error) {
			r := request{method: http.MethodPost, path: path, body: newFields()}
			if len(c.arguments) > 1 {
				r.body.put("ids", "ID", c.arguments[1:])
				return s.one(ctx, c, what, r)
			}
			for pair := range slices.Chunk(l.selection(), 2) {
				if pair[1] != "" {
					r.body.put(pair[0], "--"+pair[0], pair[1])
				}
			}
			if r.body.members == nil {
				r.body.put("all", "", true)
			}
			return s.many(ctx, c, many{what: what, request: r, deletes: deletes, limit: l.most})
		}
	}
}

// one changes the job that the request names.
func (s consent) one(ctx context.Context, c *call, what string, r request) (reply, error) {
	if s.dryRun {
		r = r.with("dry_run", "true")
	}
	o, err := c.ask(ctx, r)
	if err == nil && numberOf(o.Get("count")) == 0 {
		wrong := view.Of("type", "not-found")
		for _, result := range objects(o, "results") {
			wrong, _ = result.Get("problem").(view.Object)
		}
		err = c.refused(wrong, r.body)
	}
	return s.counted(what, 1), err
}
