package dashboard

import (
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/inspect"
)

type topicData struct {
	listing
	topicRow
	Known       bool       // there are jobs, or were lately
	Form        url.Values // of its pause and its limit
	Typed       string     // action whose form was filled in; may be empty
	States      []string
	Query       inspect.Query
	All         int // number of entries to examine; inspect.Unknown if unreadable
	Broken      error
	LookedInAll int // entries examined, on this page and those before
	Programs    []inspect.Listener
}

func (d *Dashboard) topic(p *page) error {
	if err := p.needs("topic"); err != nil {
		return err
	}
	topic := p.form.Get("topic")
	counts, known, err := d.inspector.Topic(p.ctx, topic)
	if err != nil {
		return err
	}
	pauses, err := d.inspector.PausedIfAllowed(p.ctx)
	if err != nil {
		return err
	}
	p.setClock(counts.Time)
	data := topicData{topicRow: rowOf(counts.Topics[0], pauses), Known: known, Form: p.form, Typed: p.r.PathValue("action")}
	data.All, data.Broken = counts.Pool, counts.Broken()
	if err := d.listenersOf(p.ctx, &data); err != nil {
		return err
	}
	p.fillLimit(data.Form, data.Limit)
	data.States = []string{inspect.Ready, inspect.Reserved, inspect.Waiting}
	data.Query = inspect.Query{Topic: topic, State: p.form.Get("state"), Cursor: p.form.Get("cursor")}
	if !slices.Contains(data.States, data.Query.State) {
		data.Query.State = inspect.Ready
	}
	if data.Query.State == inspect.Ready {
		data.All = inspect.Unknown
		if known {
			data.All = data.Ready
		}
	}
	if data.listing, err = d.browse(p.ctx, data.Query, nil); err != nil {
		return err
	}
	data.LookedInAll = countOf(p.form.Get("looked")) + data.Page.Looked
	return p.show("topic", data)
}

// listenersOf sets the topic's waiters.
func (d *Dashboard) listenersOf(ctx context.Context, data *topicData) error {
	if data.Broken != nil { // would wait for a partition that is down
		return nil
	}
	all, err := d.inspector.Listeners(ctx, waitedFor([]inspect.TopicCounts{data.TopicCounts}))
	if all != nil && err == nil {
		data.Listening, data.Programs = all.Clients[0], all.Programs
	}
	if unreadable(err) {
		return nil
	}
	return err
}

const (
	// pageSize is how many jobs a page shows.
	pageSize = 50
	// patience is how long a page searches for them: among the waiting jobs of all topics few may match.
	patience = 2 * time.Second
)

type listing struct {
	Page       inspect.Page
	Unreadable []piece // why the page is missing
}

// Short reports whether the search ended before the page was full.
func (l listing) Short() bool { return l.Page.Cursor != "" && len(l.Page.Jobs) < pageSize }

// unlisted returns the listing to show for an error, or the error if it is not about the key.
func unlisted(err error) (listing, error) {
	if unreadable(err) {
		return listing{Unreadable: pieces(err.Error())}, nil
	}
	return listing{}, err
}

// browse collects a page of matching jobs. It stops when the page is full, everything was examined, or
// patience is over. Each step is small, so Redis serves others in between.
func (d *Dashboard) browse(ctx context.Context, q inspect.Query, is func(inspect.Job) bool) (listing, error) {
	var all inspect.Page
	for began := time.Now(); ; {
		q.Limit = pageSize - len(all.Jobs)
		page, err := d.inspector.Browse(ctx, q)
		if err != nil {
			return unlisted(err)
		}
		if is != nil {
			page.Jobs = slices.DeleteFunc(page.Jobs, func(j inspect.Job) bool { return !is(j) })
		}
		all.Jobs, all.Looked, all.Cursor = append(all.Jobs, page.Jobs...), all.Looked+page.Looked, page.Cursor
		if len(all.Jobs) == pageSize || page.Cursor == "" || time.Since(began) >= d.patience {
			return listing{Page: all}, nil
		}
		q.Cursor = page.Cursor
	}
}
