package api

import (
	"cmp"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/view"
)

// defaultPage is the default number of jobs per page.
const defaultPage = 50

// topics answers with a page of topics, sorted by name.
func (c *call) topics() (any, error) {
	limit := get[int](c.query, "limit")
	after, err := base64.RawURLEncoding.DecodeString(get[string](c.query, "cursor"))
	if err != nil {
		return nil, wrongCursor
	}
	page, err := c.inspector.Topics(c.context(), inspect.TopicQuery{Contains: get[string](c.query, "contains"), After: string(after), Limit: limit})
	if err != nil {
		return nil, err
	}
	pauses, err := c.inspector.PausedIfAllowed(c.context())
	list := make([]object, len(page.Topics))
	for i, t := range page.Topics {
		list[i] = view.Topic(t, pauses.Of(t.Topic))
	}
	o := view.Of("topics", list)
	c.partly(page.Broken())
	o = append(o, view.Broken(page.BrokenPartitions())...)
	if len(list) == limit {
		o.Put("cursor", base64.RawURLEncoding.EncodeToString([]byte(page.Topics[limit-1].Topic)))
	}
	return o, err
}

var wrongCursor = invalid.parameter("cursor", "want the cursor of an earlier page")

func (c *call) oneTopic() (any, error) {
	t, err := c.counts()
	if err != nil {
		return nil, err
	}
	pauses, err := c.inspector.PausedIfAllowed(c.context())
	return view.Topic(t, pauses.Of(t.Topic)), err
}

// counts returns the counts of the request's topic.
func (c *call) counts() (inspect.TopicCounts, error) {
	counts, known, err := c.inspector.Topic(c.context(), c.topic())
	if err != nil {
		return inspect.TopicCounts{}, err
	}
	if !known {
		return inspect.TopicCounts{}, notFound.problem("the topic has no known jobs and had none recently")
	}
	return counts.Topics[0], nil
}

func (c *call) browse() (any, error) {
	matches := inspect.Glob(get[string](c.query, match.Name))
	return c.page(get[string](c.query, "state"), func(job inspect.Job) bool { return matches(job.ID) })
}

func (c *call) dead() (any, error) {
	return c.page(inspect.Dead, c.deadFilter(c.query).Selects)
}

// page answers with a page of the jobs in that state, of the topic if there is one, without those that are not selected.
func (c *call) page(state string, selected func(inspect.Job) bool) (any, error) {
	page, err := c.inspector.Browse(c.context(), inspect.Query{Topic: c.topic(), State: state, Limit: get[int](c.query, "limit"), Cursor: get[string](c.query, "cursor")})
	if errors.Is(err, inspect.ErrCursor) {
		err = wrongCursor
	}
	jobs := []object{}
	for _, job := range page.Jobs {
		if selected(job) {
			jobs = append(jobs, view.Summary(job, client.State(state)))
		}
	}
	o := view.Of("jobs", jobs)
	o.PutIfAny("cursor", page.Cursor)
	return o, err
}

func (c *call) purge() (any, error) {
	if get[bool](c.query, dryRun.Name) {
		return c.countReady()
	}
	return c.bulk(func(b *bulk) (int, error) { return c.inspector.Purge(b, c.topic(), get[int](c.query, most.Name)) })
}

func (c *call) countReady() (any, error) {
	t, err := c.counts()
	if errors.As(err, new(*problem)) { // no such topic
		err = nil
	}
	if t.Ready == inspect.Unknown {
		return nil, refused.problem("the topic's ready jobs can't be counted: delayer fsck names the broken key")
	}
	return view.Of("count", min(t.Ready, get[int](c.query, most.Name)), "complete", true), err
}

func (c *call) pause() (any, error) {
	note := get[string](c.body, "note")
	if err := store.CheckSize(note, store.MaxNote); err != nil {
		return nil, invalid.field("/note", "%v", err)
	}
	err := c.client.Pause(c.context(), c.topic(), client.PauseOptions{For: get[time.Duration](c.body, "for"), Note: note, UnlessPaused: get[bool](c.body, "unless_paused")})
	return nil, err
}

func (c *call) throttle() (any, error) {
	return nil, c.client.Throttle(c.context(), c.topic(), get[time.Duration](c.body, "for"))
}

func (c *call) resume() (any, error) {
	was, err := c.client.Resume(c.context(), c.topic())
	return view.Of("was_paused", was), err
}

func (c *call) paused() (any, error) {
	pauses, err := c.inspector.Paused(c.context())
	return view.Of("paused", view.Paused(pauses)), err
}

// limitFields are the fields of a limit.
var limitFields = join(
	integer("concurrency", 1, store.MaxConcurrency), number("rate", store.MinRate, store.MaxRate, "a number of jobs per second, from one a day to 1,000,000"),
	integer("burst", 1, store.MaxConcurrency), line("tag"),
)

func (c *call) setLimit() (any, error) {
	l := client.Limit{
		Concurrency: int(get[int64](c.body, "concurrency")), Rate: get[float64](c.body, "rate"),
		Burst: int(get[int64](c.body, "burst")), Tag: get[string](c.body, "tag"),
	}
	switch {
	case l.Concurrency == 0 && l.Rate == 0:
		return nil, invalid.field("", "want concurrency, rate or both")
	case l.Burst > 0 && l.Rate == 0:
		return nil, invalid.field("/burst", "it has no effect without rate")
	case strings.ContainsAny(l.Tag, "{}") || len(l.Tag) > store.MaxTag:
		return nil, invalid.field("/tag", "want at most %d bytes, without braces", store.MaxTag)
	}
	if err := c.client.SetLimit(c.context(), c.topic(), l); err != nil {
		return nil, err
	}
	o, err := c.withUse(l)
	c.partly(err) // the limit is in force all the same
	return o, nil
}

func (c *call) limit() (any, error) {
	l, err := c.inspector.Limit(c.context(), c.topic())
	if err != nil {
		return nil, err
	}
	return c.withUse(client.Limit(l))
}

// withUse describes the topic's limit and, unless there is an error, how much of it is used.
func (c *call) withUse(l client.Limit) (o object, err error) {
	o.Put("topic", c.topic())
	if l == (client.Limit{}) {
		return o, nil
	}
	o = append(o, view.Limit(l)...)
	counts, err := c.inspector.CountsOf(c.context(), c.topic())
	if err = cmp.Or(err, counts.Broken()); err == nil {
		o = append(o, view.Use(counts.Topics[0])...)
	}
	return o, err
}

func (c *call) removeLimit() (any, error) {
	return nil, c.client.SetLimit(c.context(), c.topic(), client.Limit{})
}
