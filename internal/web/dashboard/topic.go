package dashboard

import (
	"context"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

// topicData is what a topic's page shows.
type topicData struct {
	listing
	Topic       string
	Counts      *inspect.TopicCounts // nil if the topic is not known
	Pause       *store.Pause         // nil if it is not paused
	For, Note   string               // what was typed in
	Limits      limitForm
	Typed       string // the name of the action into whose form it was typed; empty if none was
	States      []string
	Query       inspect.Query
	All         int // how many entries there are to look at; Unknown if it can't be told
	Broken      error
	LookedInAll int // how many were looked at, also on the pages before
	Listening   int // how many clients wait for its jobs; Unknown if it can't be told
	Programs    listenersTable
}

// IsLimited reports whether its jobs are limited.
func (t topicData) IsLimited() bool { return t.Counts != nil && t.Counts.Limit != (store.Limit{}) }

// IsAlone reports whether it has ready jobs, and nobody is seen to consume them.
func (t topicData) IsAlone() bool {
	return t.Counts != nil && t.Counts.Ready > 0 && t.Counts.Reserved == 0 && t.Listening == 0 && t.Pause == nil && t.Counts.Held == 0
}

// topic is a topic's page: its jobs in one state, some at a time.
func (d *Dashboard) topic(p *page) error {
	if err := p.needs("topic"); err != nil {
		return err
	}
	data := topicData{Topic: p.form.Get("topic"), States: []string{inspect.Ready, inspect.Reserved, inspect.Waiting}}
	data.Query = inspect.Query{Topic: data.Topic, State: p.form.Get("state"), Cursor: p.form.Get("cursor")}
	if !slices.Contains(data.States, data.Query.State) {
		data.Query.State = inspect.Ready
	}
	counts, known, err := d.inspector.Topic(p.ctx, data.Topic)
	if err != nil {
		return err
	}
	p.setClock(counts.Time)
	data.All, data.Broken = counts.Pool, counts.Broken()
	if known {
		data.Counts = &counts.Topics[0]
	}
	if data.Pause, err = d.pauseOf(p.ctx, data.Topic); err != nil {
		return err
	}
	if err := d.listenersOf(p.ctx, &data, counts.Topics); err != nil {
		return err
	}
	data.Typed = p.r.PathValue("action")
	data.For, data.Note = p.form.Get("for"), p.form.Get("note")
	data.Limits = p.limitForm(counts.Topics[0].Limit)
	if data.Query.State == inspect.Ready {
		data.All = inspect.Unknown
		if data.Counts != nil {
			data.All = data.Counts.Ready
		}
	}
	if data.listing, err = d.browse(p.ctx, data.Query, nil); err != nil {
		return err
	}
	data.LookedInAll = countOf(p.form.Get("looked")) + data.Page.Looked
	return p.show("topic", data)
}

// listenersOf enters who waits for the topic's jobs.
func (d *Dashboard) listenersOf(ctx context.Context, data *topicData, topic []inspect.TopicCounts) error {
	data.Listening = inspect.Unknown
	if data.Broken != nil { // it would wait for what is away
		return nil
	}
	all, err := d.inspector.Listeners(ctx, waitedFor(topic))
	if all != nil && err == nil {
		data.Listening, data.Programs = all.Clients[0], listenersOf(all.Programs)
	}
	if unreadable(err) {
		return nil
	}
	return err
}

// pauseOf is why nothing of the topic is delivered, nil if it is not paused, or this Redis user may not know.
func (d *Dashboard) pauseOf(ctx context.Context, topic string) (*store.Pause, error) {
	pauses, err := d.inspector.PausedIfAllowed(ctx)
	return pauses.Of(topic), err
}

const (
	// pageSize is how many jobs a page shows, if it finds as many.
	pageSize = 50
	// patience is for how long a page looks for them: among the waiting jobs of all topics there may be
	// few that are meant.
	patience = 2 * time.Second
)

// listing is a page of jobs.
type listing struct {
	Page       inspect.Page
	Unreadable []piece // why there is none
}

// Short reports whether the look ended before the page was full.
func (l listing) Short() bool { return l.Page.Cursor != "" && len(l.Page.Jobs) < pageSize }

// unlisted is what stands in place of a page for an error; nothing does if that is not of the key.
func unlisted(err error) (listing, error) {
	if unreadable(err) {
		return listing{Unreadable: pieces(err.Error())}, nil
	}
	return listing{}, err
}

// browse looks on until a page of the jobs is found for which is is true, or all, or until patience is
// over. Each step is small: Redis serves others between them.
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
