package dashboard

import (
	"context"
	"net/url"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

type topicData struct {
	listing
	Topic       string
	Counts      *inspect.TopicCounts // nil if the topic is unknown
	Pause       *store.Pause         // nil if it is not paused
	Form        url.Values           // of its pause and its limit
	Typed       string               // action whose form was filled in; may be empty
	States      []string
	Query       inspect.Query
	All         int // number of entries to examine; inspect.Unknown if unreadable
	Broken      error
	LookedInAll int // entries examined, on this page and those before
	Listening   int // number of waiters; inspect.Unknown if unreadable
	Programs    []inspect.Listener
}

func (t topicData) IsLimited() bool { return t.Counts != nil && t.Counts.Limit != (store.Limit{}) }

// IsAlone reports whether the topic has ready jobs and no visible consumer.
func (t topicData) IsAlone() bool {
	return t.Counts != nil && t.Counts.Ready > 0 && t.Counts.Reserved == 0 && t.Listening == 0 && t.Pause == nil && t.Counts.Throttled == 0
}

func (d *Dashboard) topic(p *page) error {
	if err := p.needs("topic"); err != nil {
		return err
	}
	data := topicData{Topic: p.form.Get("topic"), Form: p.form, States: []string{inspect.Ready, inspect.Reserved, inspect.Waiting}}
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
	p.fillLimit(data.Form, counts.Topics[0].Limit)
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

// listenersOf sets the topic's waiters.
func (d *Dashboard) listenersOf(ctx context.Context, data *topicData, topic []inspect.TopicCounts) error {
	data.Listening = inspect.Unknown
	if data.Broken != nil { // would wait for a partition that is down
		return nil
	}
	all, err := d.inspector.Listeners(ctx, waitedFor(topic))
	if all != nil && err == nil {
		data.Listening, data.Programs = all.Clients[0], all.Programs
	}
	if unreadable(err) {
		return nil
	}
	return err
}

// pauseOf returns why nothing is delivered; nil if the topic is not paused or pauses can't be read.
func (d *Dashboard) pauseOf(ctx context.Context, topic string) (*store.Pause, error) {
	pauses, err := d.inspector.PausedIfAllowed(ctx)
	return pauses.Of(topic), err
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
