package api

import (
	"strings"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/view"
)

// limitFields are the fields of a limit.
var limitFields = join(
	integer("concurrency", 1, store.MaxConcurrency), number("rate", store.MinRate, store.MaxRate, "a number of jobs a second, from one a day to 1,000,000"),
	integer("burst", 1, store.MaxConcurrency), line("tag"),
)

func (a *api) setLimit(c *call) (response, error) {
	l := client.Limit{
		Concurrency: int(get[int64](c.body, "concurrency")), Rate: get[float64](c.body, "rate"),
		Burst: int(get[int64](c.body, "burst")), Tag: get[string](c.body, "tag"),
	}
	switch {
	case l.Concurrency == 0 && l.Rate == 0:
		return response{}, invalid.field("", "want concurrency, rate or both; DELETE ends a limit")
	case l.Burst > 0 && l.Rate == 0:
		return response{}, invalid.field("/burst", "it is of use only with rate")
	case strings.ContainsAny(l.Tag, "{}") || len(l.Tag) > store.MaxTag:
		return response{}, invalid.field("/tag", "it has braces, or more than %d bytes", store.MaxTag)
	}
	if err := a.client.SetLimit(c.context(), c.topic(), l); err != nil || l.Tag == "" {
		return done, err
	}
	// The limit is in force even if the count below fails.
	if counts, err := a.inspector.CountsOf(c.context(), c.topic()); err == nil && counts.Topics[0].Untagged > 0 {
		return ok(view.Of("untagged", counts.Topics[0].Untagged, "message", untaggedMessage)), nil
	}
	return done, nil
}

const untaggedMessage = "these ready jobs lack the tag, nobody will get them: set a limit without a tag, or push them again with the tag in their IDs"

func (a *api) removeLimit(c *call) (response, error) {
	return done, a.client.SetLimit(c.context(), c.topic(), client.Limit{})
}
