package api

import (
	"encoding/base64"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/view"
)

// defaultPage is the default number of jobs per page.
const defaultPage = 50

// topics answers with a page of topics, sorted by name.
func (a *api) topics(c *call) (response, error) {
	limit, err := c.number("limit", inspect.MaxPage, 1, inspect.MaxPage)
	if err != nil {
		return response{}, err
	}
	after, err := base64.RawURLEncoding.DecodeString(c.query.Get("cursor"))
	if err != nil {
		return response{}, invalid.parameter("cursor", "want that of an earlier page")
	}
	page, err := a.inspector.Topics(c.context(), inspect.TopicQuery{
		Contains: c.query.Get("contains"), After: string(after), Limit: limit,
	})
	if err != nil {
		return response{}, err
	}
	pauses, err := a.inspector.PausedIfAllowed(c.context())
	list := make([]object, len(page.Topics))
	for i, t := range page.Topics {
		list[i] = view.Topic(t, pauses.Of(t.Topic))
	}
	o := view.Of("topics", list)
	if len(list) == limit {
		o.Put("cursor", base64.RawURLEncoding.EncodeToString([]byte(page.Topics[limit-1].Topic)))
	}
	return ok(o), err
}

func (a *api) topic(c *call) (response, error) {
	t, err := a.countsOf(c)
	if err != nil {
		return response{}, err
	}
	pauses, err := a.inspector.PausedIfAllowed(c.context())
	return ok(view.Topic(t, pauses.Of(t.Topic))), err
}

// countsOf returns the counts of the request's topic.
func (a *api) countsOf(c *call) (inspect.TopicCounts, error) {
	counts, known, err := a.inspector.Topic(c.context(), c.topic())
	if err != nil {
		return inspect.TopicCounts{}, err
	}
	if !known {
		return inspect.TopicCounts{}, notFound.problem("the topic has no jobs that are known, nor had any lately")
	}
	return counts.Topics[0], nil
}

func (a *api) browse(c *call) (response, error) {
	state := c.query.Get("state")
	if states := []string{inspect.Ready, inspect.Reserved, inspect.Waiting}; !slices.Contains(states, state) {
		return response{}, invalid.parameter("state", "want %s", strings.Join(states, ", "))
	}
	return a.page(c, state)
}

func (a *api) dead(c *call) (response, error) { return a.page(c, inspect.Dead) }

// page answers with a page of jobs.
func (a *api) page(c *call, state string) (response, error) {
	limit, err := c.number("limit", defaultPage, 1, inspect.MaxPage)
	if err != nil {
		return response{}, err
	}
	page, err := a.inspector.Browse(c.context(), inspect.Query{Topic: c.topic(), State: state, Limit: limit, Cursor: c.query.Get("cursor")})
	if errors.Is(err, inspect.ErrCursor) {
		err = invalid.parameter("cursor", "want that of an earlier page")
	}
	jobs := make([]object, len(page.Jobs))
	for i, job := range page.Jobs {
		jobs[i] = view.Summary(job, client.State(state))
	}
	o := view.Of("jobs", jobs)
	if page.Cursor != "" {
		o.Put("cursor", page.Cursor)
	}
	return ok(o), err
}

func (a *api) purge(c *call) (response, error) {
	dryRun, err := c.dryRun()
	if err != nil {
		return response{}, err
	}
	if dryRun {
		return a.countReady(c)
	}
	return a.bulk(c, func(b *bulk) (int, error) { return a.inspector.Purge(b, c.topic(), math.MaxInt) })
}

func (a *api) countReady(c *call) (response, error) {
	t, err := a.countsOf(c)
	if errors.As(err, new(*problem)) { // no such topic
		err = nil
	}
	if t.Ready == inspect.Unknown {
		return response{}, refused.problem("the topic's ready queue can't be read")
	}
	return ok(view.Of("count", t.Ready, "complete", true)), err
}

// maxSpans is the maximum number of spans of a forecast.
const maxSpans = 100

func (a *api) forecast(c *call) (response, error) {
	bounds, err := c.spans()
	if err != nil {
		return response{}, err
	}
	spans, err := a.inspector.Forecast(c.context(), bounds)
	return ok(view.Of("spans", view.Spans(spans))), err
}

// spans returns the ends of the requested spans.
func (c *call) spans() (bounds []time.Duration, err error) {
	if !c.query.Has("spans") {
		return view.Forecast, nil
	}
	last := time.Duration(0)
	for text := range strings.SplitSeq(c.query.Get("spans"), ",") {
		d, err := duration.Parse(text)
		if err != nil || d < last+time.Millisecond || d > client.MaxDelay || len(bounds) == maxSpans {
			return nil, invalid.parameter("spans", "want up to %d durations above 0 that grow, such as 1m,1h,24h,7d", maxSpans)
		}
		bounds, last = append(bounds, d), d
	}
	return bounds, nil
}
