package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/exit"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/view"
)

// listing is listed for operation.
func listing(name string, columns ...string) func(*call, view.Object) reply {
	return func(c *call, o view.Object) reply { return c.listed(o, name, columns...) }
}

// listed returns a reply with the list of an answer.
func (c *call) listed(o view.Object, name string, columns ...string) reply {
	return c.noted(rowsOf(name, objects(o, name), columns...))
}

// noted adds to a list which parts of it are missing.
func (c *call) noted(r reply) reply {
	r.rows.notes = c.notes()
	if c.v1.broken != nil {
		r.rows.more.Put("broken_partitions", c.v1.broken)
	}
	return r
}

// jobRows returns a reply that lists jobs, most of them if that is not 0.
func jobRows(jobs iter.Seq2[view.Object, error], most int, columns ...string) reply {
	return reply{rows: &rows{name: "jobs", columns: columns, list: jobs, most: most}}
}

// selection holds the flags that select jobs.
type selection struct {
	state, match string
	most         int // 0: no limit
}

func (s *selection) define(f *flagSet) {
	oneOf(f, "state", &s.state, states...)
	f.text("match", &s.match)
	f.number("limit", &s.most, math.MaxInt32)
}

var states = []string{inspect.Ready, inspect.Reserved, inspect.Waiting}

// states returns the selected states.
func (s selection) states() []string {
	if s.state != "" {
		return []string{s.state}
	}
	return states
}

func beginList(f *flagSet) action {
	var s selection
	s.define(f)
	f.check = func(arguments []string) error {
		if len(arguments) == 0 && s.state != inspect.Reserved && s.state != inspect.Waiting {
			return errors.New("want TOPIC, or --state reserved or waiting for the jobs of all topics")
		}
		return nil
	}
	return func(ctx context.Context, c *call) (reply, error) {
		r := request{path: "/v1/jobs"}
		columns := []string{"id", "topic", "due", "lease_ends", "attempts", "size", "preview"}
		if len(c.arguments) > 0 {
			r.path, columns[1] = "/v1/topics/{topic}/jobs", "state"
		}
		return jobRows(func(yield func(view.Object, error) bool) {
			for _, state := range s.states() {
				for job, err := range c.pages(ctx, r.with("state", state, "match", s.match), "jobs") {
					if !yield(job, err) || err != nil {
						return
					}
				}
			}
		}, s.most, columns...), nil
	}
}

// order selects and sorts the topics of a table.
type order struct{ topic, sort, only string }

// orderFlags defines --topic and --sort.
func orderFlags(f *flagSet, o *order, columns []string) {
	f.text("topic", &o.topic)
	oneOf(f, "sort", &o.sort, columns...)
}

// of returns the rows of matching topics. Numbers are sorted in descending, texts in ascending
// order.
func (o order) of(list []view.Object) []view.Object {
	matches := inspect.Glob(o.topic)
	list = slices.DeleteFunc(list, func(row view.Object) bool {
		topic := row.TextOf("topic")
		return !matches(topic) || o.only != "" && topic != o.only
	})
	if o.sort != "" {
		slices.SortStableFunc(list, func(a, b view.Object) int {
			x, y := a.Get(o.sort), b.Get(o.sort)
			if isNumber(x) && isNumber(y) {
				return cmp.Compare(numberOf(y), numberOf(x))
			}
			return strings.Compare(cell(o.sort, x), cell(o.sort, y))
		})
	}
	return list
}

// topicColumns are the columns of topics, limitColumns what else a table of limited topics has.
var (
	topicColumns = []string{"topic", "ready", "reserved", "dead", "throttled", "overdue", "limit", "paused"}
	limitColumns = []string{"slots_taken", "throttled", "throttled_until", "untagged"}
)

func beginTopics(f *flagSet) action {
	var o order
	var paused, limited bool
	orderFlags(f, &o, slices.Concat(topicColumns, []string{"slots_taken", "throttled_until", "untagged"}))
	f.toggle("paused", &paused)
	f.toggle("limited", &limited)
	return func(ctx context.Context, c *call) (reply, error) {
		var list []view.Object
		for row, err := range c.pages(ctx, request{path: "/v1/topics"}, "topics") {
			if err != nil {
				return reply{}, err
			}
			if !(paused && row.Get("paused") == nil || limited && row.Get("limit") == nil) {
				list = append(list, row)
			}
		}
		columns := topicColumns
		if limited {
			columns = append([]string{"topic", "limit"}, limitColumns...)
		}
		return c.noted(rowsOf("topics", o.of(list), columns...)), nil
	}
}

func servers(c *call, o view.Object) reply {
	r := c.listed(o, "servers", "host", "pid", "version", "started", "silent", "stale", "failing", "moved", "returned", "dropped")
	for _, s := range objects(o, "servers") {
		if s.Get("failing") == true {
			r.rows.notes = append(r.rows.notes, printable(fmt.Sprintf("%s, pid %v fails: its log and delayer doctor say why", s.TextOf("host"), s.Get("pid")), ""))
		}
	}
	return r
}

func partitions(c *call, o view.Object) reply {
	columns := []string{"partition", "waiting", "ready", "reserved", "dead", "overdue", "mover"}
	if slices.ContainsFunc(objects(o, "partitions"), func(p view.Object) bool { return p.Get("node") != nil }) {
		columns = slices.Insert(columns, 1, "node")
	}
	return c.listed(o, "partitions", columns...)
}

func beginForecast(f *flagSet) action {
	var spans string
	f.text("spans", &spans)
	return func(ctx context.Context, c *call) (reply, error) {
		o, err := c.ask(ctx, request{path: "/v1/forecast"}.with("spans", spans))
		return c.listed(o, "spans", "from", "until", "jobs", "estimated"), err
	}
}

// statColumns are the columns of the topics that stats shows.
var statColumns = []string{"topic", "waiting", "ready", "reserved", "dead", "throttled", "overdue", "paused"}

func beginStats(f *flagSet) action {
	var o order
	var every time.Duration
	orderFlags(f, &o, statColumns)
	f.duration("watch", &every, store.MaxDelay)
	return func(ctx context.Context, c *call) (reply, error) {
		if len(c.arguments) > 0 {
			if o.only = c.arguments[0]; o.only == "" {
				return reply{}, exit.With(exit.Usage, errors.New("stats: TOPIC is empty"))
			}
		}
		for {
			r, err := c.stats(ctx, o)
			if err != nil || every == 0 {
				return r, err
			}
			if err := c.redraw(ctx, r); err != nil {
				return reply{}, err
			}
			select {
			case <-ctx.Done():
				return reply{}, ctx.Err()
			case <-time.After(every):
			}
		}
	}
}

// redraw prints the reply. On a terminal it replaces the previous one.
func (c *call) redraw(ctx context.Context, r reply) error {
	text := r.text
	if c.json {
		text = jsonLine(r.json) + "\n"
	} else if isScreen(c.stdout) {
		return awaitOutput(ctx, func() error {
			_, err := fmt.Fprintf(c.stdout, "\x1b[H%s\x1b[J", strings.ReplaceAll(printable(text, "\n"), "\n", "\x1b[K\n"))
			return outputError(err)
		})
	}
	return c.write(ctx, text)
}

// stats reads the total counts and the counts of each topic. What can't be read is null, and named below.
func (c *call) stats(ctx context.Context, o order) (reply, error) {
	all, err := c.ask(ctx, request{path: "/v1/stats"}.with("counts", "true"))
	if err != nil {
		return reply{}, err
	}
	topics := o.of(objects(all, "counts"))
	text := ""
	if o.only == "" {
		text = inLines(all, "topics_counted", "at_least", "broken_partitions", "servers", "redis", "nodes", "counts") + "\n"
	}
	text += (&table{columns: statColumns}).text(topics)
	notes := c.notes()
	if all.Get("at_least") == true {
		notes = append(notes, fmt.Sprintf("%v topics are known; these are the %v used last", all.Get("topics"), all.Get("topics_counted")))
	}
	for _, note := range notes {
		text += note + "\n"
	}
	for i := range all {
		if all[i].Name == "counts" {
			all[i].Value = topics
		}
	}
	return reply{text: text, json: all, safe: true}, nil
}

// runConfig lists the settings and their sources.
func runConfig(_ context.Context, c *call) (reply, error) {
	list := make([]view.Object, len(c.found.Settings))
	for i, s := range c.found.Settings {
		list[i] = view.Of("setting", s.Name, "value", s.Value, "from", cmp.Or(s.From, "default"))
	}
	return rowsOf("settings", list, "setting", "value", "from"), nil
}
