package api

import (
	"context"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/view"
)

// maxCause is how many bytes of a reason or error are compared.
const maxCause = 1 << 10

// checkSelection makes sure that a missing filter never means all dead letters.
func checkSelection(s values) error {
	ways := 0
	for _, way := range []bool{s.has("ids"), s.has("reason", "error", "after", "before", "match"), get[bool](s, "all")} {
		if way {
			ways++
		}
	}
	switch {
	case ways != 1:
		return invalid.problem("want one of ids, all: true, or any of reason, error, after, before and match")
	case s.has("ids") && s.has("limit"):
		return invalid.field("/limit", "it has no effect with ids")
	}
	return nil
}

func (c *call) requeue() (any, error) { return c.choose(c.requeueIDs, c.inspector.RequeueDead) }

func (c *call) drop() (any, error) {
	byID := func(b *bulk, ids []string) (int, error) { return c.inspector.DropIDs(b, c.topic(), ids...) }
	return c.choose(byID, c.inspector.DropDead)
}

// choose applies byID or byFilter to the selected dead letters, or counts them.
func (c *call) choose(byID func(*bulk, []string) (int, error), byFilter func(context.Context, inspect.DeadFilter) (int, error)) (any, error) {
	if err := checkSelection(c.body); err != nil {
		return nil, err
	}
	if get[bool](c.query, dryRun.Name) {
		byID, byFilter = c.countIDs, c.inspector.CountDead
	}
	return c.bulk(func(b *bulk) (int, error) {
		if c.body.has("ids") {
			return byID(b, get[[]string](c.body, "ids"))
		}
		filter := c.deadFilter(c.body)
		filter.Most = int(get[int64](c.body, "limit"))
		return byFilter(b, filter)
	})
}

// deadFilter selects dead letters of the topic by a query or a body.
func (c *call) deadFilter(by values) inspect.DeadFilter {
	return inspect.DeadFilter{
		Topic: c.topic(), Reason: get[string](by, "reason"), Error: get[string](by, "error"),
		After: get[time.Time](by, "after"), Before: get[time.Time](by, "before"), ID: inspect.Glob(get[string](by, match.Name)),
	}
}

// requeueIDs requeues each ID and records its result.
func (c *call) requeueIDs(b *bulk, ids []string) (int, error) {
	return c.inspector.RequeueIDs(b, c.topic(), ids, false, func(id string, err error) { b.results = append(b.results, result(client.Result{ID: id, Err: err})) })
}

// countIDs counts the dead letters that could be requeued or dropped.
func (c *call) countIDs(b *bulk, ids []string) (int, error) {
	return c.inspector.RequeueIDs(b, c.topic(), ids, true, func(string, error) {})
}

// How many dead letters are examined for groups.
const (
	defaultLook = 1000
	maxLook     = 10000
)

func (c *call) deadGroups() (any, error) {
	found, err := c.inspector.DeadGroups(c.context(), c.topic(), get[int](c.query, "limit"))
	return view.DeadGroups(found), err
}
