package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/view"
)

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
	if o.topic != "" || o.only != "" {
		matches := glob(o.topic)
		if o.only != "" {
			matches = func(topic string) bool { return topic == o.only }
		}
		list = slices.DeleteFunc(list, func(row view.Object) bool { return !matches(textOf(row.Get("topic"))) })
	}
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

// textOf returns a text that may be base64 in JSON.
func textOf(value any) string {
	if b, is := value.([]byte); is {
		return string(b)
	}
	return fmt.Sprint(value)
}

func numberOf(value any) float64 {
	switch v := value.(type) {
	case int:
		return float64(v)
	case int64:
		return float64(v)
	case float64:
		return v
	case view.Seconds:
		return time.Duration(v).Seconds()
	}
	return math.Inf(-1)
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
		v := c.jobs.Overview(ctx)
		list := slices.DeleteFunc(topicsOf(v), func(row view.Object) bool {
			return paused && row.Get("paused") == nil || limited && row.Get("limit") == nil
		})
		columns := topicColumns
		if limited {
			columns = append([]string{"topic", "limit"}, limitColumns...)
		}
		r := rowsOf("topics", o.of(list), columns...)
		r.rows.notes = incomplete(v.Counts, v.PausesErr)
		return r, v.CountsErr
	}
}

// topicsOf returns the topics as rows.
func topicsOf(v inspect.Overview) []view.Object {
	list := make([]view.Object, len(v.Topics))
	for i, t := range v.Topics {
		list[i] = view.Topic(t, v.Pauses.Of(t.Topic))
	}
	return list
}

// incomplete describes what is missing from the counts, and from what was read with them.
func incomplete(counts inspect.Counts, errs ...error) (notes []string) {
	if counts.AtLeast() {
		notes = append(notes, fmt.Sprintf("%d topics are known; these are the %d used last", counts.Known, len(counts.Topics)))
	}
	notes = append(notes, notCounted(counts.Broken())...)
	for _, err := range errs {
		if err != nil && !store.Refused(err) {
			notes = append(notes, "can't "+printable(err.Error(), ""))
		}
	}
	return notes
}

// notCounted names the broken partitions, if there are any.
func notCounted(broken error) []string {
	if broken == nil {
		return nil
	}
	return []string{"not counted: " + printable(broken.Error(), "")}
}

func runServers(ctx context.Context, c *call) (reply, error) {
	servers, err := c.jobs.Servers(ctx)
	list := view.Servers(servers)
	r := rowsOf("servers", list, "host", "pid", "version", "started", "silent", "stale", "failing", "moved", "returned", "dropped")
	for i, s := range servers {
		if s.Error != "" {
			list[i].Put("error", s.Error)
			r.rows.notes = append(r.rows.notes, printable(fmt.Sprintf("%s, pid %d: %s", s.Host, s.PID, s.Error), ""))
		}
	}
	return r, err
}

func beginForecast(f *flagSet) action {
	bounds := view.Forecast
	f.one("spans", func(value string) error {
		bounds = nil
		last := time.Duration(0)
		for text := range strings.SplitSeq(value, ",") {
			d, err := duration.Parse(text)
			if err != nil || d <= last || d > client.MaxDelay {
				return errors.New("want durations that grow, such as 1m,1h,24h,7d")
			}
			bounds, last = append(bounds, d), d
		}
		return nil
	})
	return func(ctx context.Context, c *call) (reply, error) {
		found, err := c.jobs.Forecast(ctx, bounds)
		r := rowsOf("spans", view.Spans(found.Spans), "from", "until", "jobs", "estimated")
		r.rows.notes = notCounted(found.Broken)
		return r, err
	}
}

// statColumns are the columns of the topics that stats shows.
var statColumns = []string{"topic", "waiting", "ready", "reserved", "dead", "throttled", "overdue", "paused"}

func beginStats(f *flagSet) action {
	var o order
	var every time.Duration
	orderFlags(f, &o, statColumns)
	f.duration("watch", &every, maxTime)
	return func(ctx context.Context, c *call) (reply, error) {
		if len(c.arguments) > 0 {
			if o.only = c.arguments[0]; o.only == "" {
				return reply{}, c.noTopic()
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
	v := c.jobs.Overview(ctx)
	if v.CountsErr != nil {
		return reply{}, v.CountsErr
	}
	nodes, noInfo := c.jobs.Info(ctx)
	due, noForecast := c.jobs.Forecast(ctx, view.Forecast[:3])
	shares, noShares := c.jobs.Shares(ctx, sampled)
	topics := topicsOf(v)
	addWaiting(topics, shares, noShares)
	all := view.Stats(v.Counts, nodes, v.Servers, v.ServersErr)
	throttled, paused := 0, 0
	for _, t := range topics {
		if n, is := t.Get("throttled").(int); is {
			throttled += n
		}
		if t.Get("paused") != nil {
			paused++
		}
	}
	all.Put("throttled", throttled)
	all.Put("paused", paused)
	jobs := 0
	for i, name := range []string{"due_in_minute", "due_in_hour", "due_in_day"} {
		if noForecast != nil {
			all.Put(name, nil)
			continue
		}
		jobs += due.Spans[i].Jobs
		all.Put(name, jobs)
	}
	rates, noRates := c.rates(ctx, v.Time)
	all = append(all, rates...)
	text := ""
	if o.only == "" {
		text = inLines(all, "topics_counted", "at_least", "broken_partitions", "servers", "redis", "nodes") + "\n"
	}
	topics = o.of(topics)
	all.Put("counts", topics)
	text += (&table{columns: statColumns}).text(topics)
	notes := incomplete(v.Counts, v.PausesErr, v.ServersErr, noInfo, noForecast, noShares, noRates)
	if v.Broken() == nil {
		notes = append(notes, notCounted(cmp.Or(due.Broken, shares.Broken))...)
	}
	for _, note := range notes {
		text += note + "\n"
	}
	return reply{text: text, json: all, safe: true}, nil
}

// sampled is the number of waiting jobs examined for the topics' shares.
const sampled = 1000

// addWaiting adds the number of waiting jobs per topic, estimated from a sample.
func addWaiting(topics []view.Object, shares inspect.Shares, unread error) {
	waiting := map[string]int{}
	for _, s := range shares.Topics {
		waiting[s.Topic] = s.Jobs
	}
	for i, t := range topics {
		if unread != nil {
			topics[i].Put("waiting", nil)
			continue
		}
		topics[i].Put("waiting", waiting[textOf(t.Get("topic"))])
		if !shares.Exact {
			topics[i].Put("waiting_estimated", true)
		}
	}
}

// rates returns how many jobs per second became ready and were acknowledged in the last ten seconds of the servers' history,
// and how late they were. The rates are unknown without servers, or if this Redis user may not read them.
func (c *call) rates(ctx context.Context, now time.Time) (view.Object, error) {
	past, err := c.jobs.History(ctx)
	n := len(past)
	if err != nil || n == 0 || now.Sub(past[n-1].Until) > time.Minute {
		return view.Of("moved_per_second", nil, "acked_per_second", nil, "late_p50", nil, "late_p99", nil), err
	}
	last := past[n-1]
	rate := func(jobs int64, from time.Time) any {
		return math.Round(10*float64(jobs)/last.Until.Sub(from).Seconds()) / 10
	}
	acked := any(nil)
	if n > 1 && last.Acked >= 0 && past[n-2].Acked >= 0 {
		acked = rate(last.Acked-past[n-2].Acked, past[n-2].Until)
	}
	return view.Of("moved_per_second", rate(last.Lateness.Jobs(), last.From), "acked_per_second", acked,
		"late_p50", late(last.Lateness, 0.5), "late_p99", late(last.Lateness, 0.99)), nil
}

func late(l store.Lateness, q float64) time.Duration { return l.Quantile(q).Round(time.Microsecond) }
