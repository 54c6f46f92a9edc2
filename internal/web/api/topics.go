package api

import (
	"encoding/base64"
	"errors"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/inspect"
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
		list[i] = topicCounts(t, pauses)
	}
	o := object{{"topics", list}}
	if len(list) == limit {
		o.put("cursor", base64.RawURLEncoding.EncodeToString([]byte(page.Topics[limit-1].Topic)))
	}
	return ok(o), err
}

func (a *api) topic(c *call) (response, error) {
	t, err := a.countsOf(c)
	if err != nil {
		return response{}, err
	}
	pauses, err := a.inspector.PausedIfAllowed(c.context())
	return ok(topicCounts(t, pauses)), err
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

func topicCounts(t inspect.TopicCounts, pauses inspect.Pauses) object {
	var o object
	o.text("topic", t.Topic)
	o.put("ready", t.Ready)
	o.put("reserved", t.Reserved)
	o.put("dead", t.Dead)
	o.put("overdue", t.Overdue)
	o.put("overdue_at_least", t.AtLeast)
	if l := client.Limit(t.Limit); l != (client.Limit{}) {
		o.put("limit", limitOf(l))
		if l.Concurrency > 0 {
			o.put("slots_taken", t.Slots)
		}
		o.put("throttled", t.Held)
		o.put("throttled_until", t.HeldUntil)
		if l.Tag != "" {
			o.put("untagged", t.Untagged)
		}
	}
	if p := pauses.Of(t.Topic); p != nil {
		o.put("paused", pauseOf(*p))
	}
	return o
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
		jobs[i] = summary(job, client.State(state))
	}
	o := object{{"jobs", jobs}}
	if page.Cursor != "" {
		o.put("cursor", page.Cursor)
	}
	return ok(o), err
}

// summary is a job's entry on a page.
func summary(job inspect.Job, state client.State) object {
	var o object
	o.text("id", job.ID)
	o.text("topic", job.Topic)
	o.put("state", state)
	o.put(timeNames[state], job.At)
	o.put("attempts", job.Attempts)
	o.textIfAny("reason", job.Reason)
	o.textIfAny("error", job.Error)
	o.put("size", job.Size)
	if job.Size > len(job.Body) {
		job.Body = wholeCharacters(job.Body)
	}
	o.text("preview", job.Body)
	return o
}

// wholeCharacters removes the incomplete character at the end of a cut text.
func wholeCharacters(text string) string {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if !utf8.FullRuneInString(text[len(text)-n:]) {
			return text[:len(text)-n]
		}
	}
	return text
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
	return ok(object{{"count", t.Ready}, {"complete", true}}), err
}

// maxSpans is the maximum number of spans of a forecast.
const maxSpans = 100

func (a *api) forecast(c *call) (response, error) {
	bounds, err := c.spans()
	if err != nil {
		return response{}, err
	}
	spans, err := a.inspector.Forecast(c.context(), bounds)
	list := make([]object, len(spans))
	for i, s := range spans {
		list[i] = object{{"from", s.From.Seconds()}, {"until", s.Until.Seconds()}, {"jobs", s.Jobs}, {"estimated", s.Estimated}}
	}
	return ok(object{{"spans", list}}), err
}

// spans returns the ends of the requested spans.
func (c *call) spans() (bounds []time.Duration, err error) {
	if !c.query.Has("spans") {
		return []time.Duration{time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}, nil
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
