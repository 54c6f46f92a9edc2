package dashboard

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
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

// fillLimit puts the limit into its form, unless that was just sent.
func (p *page) fillLimit(form url.Values, of store.Limit) {
	if p.r.PathValue("action") == "limit" {
		return
	}
	for _, name := range []string{"concurrency", "rate", "burst"} {
		form.Del(name)
	}
	if of.Concurrency > 0 {
		form.Set("concurrency", strconv.Itoa(of.Concurrency))
	}
	if of.Rate > 0 {
		form.Set("rate", duration.Rate(of.Rate))
		if of.Burst > 0 {
			form.Set("burst", strconv.Itoa(of.Burst))
		}
	}
	form.Set("tag", of.Tag)
}

// limit sets the limit that was typed in.
func (a *act) limit() (int, error) {
	concurrency, err := a.whole("concurrency")
	burst, wrongBurst := a.whole("burst")
	l := client.Limit{Concurrency: concurrency, Burst: burst, Tag: a.form.Get("tag")}
	if text := a.typed("rate"); text != "" {
		var wrongRate error
		if l.Rate, wrongRate = duration.ParseRate(text); wrongRate != nil {
			err = cmp.Or(err, error(&wrong{"wrong.rate", text, "rate"}))
		}
	}
	err = cmp.Or(err, wrongBurst)
	switch {
	case err != nil:
		return 0, err
	case l.Concurrency == 0 && l.Rate == 0:
		return 0, &wrong{"wrong.limit", visible(a.Topic), "concurrency"}
	case l.Burst > 0 && l.Rate == 0:
		return 0, &wrong{"wrong.burst_alone", a.typed("burst"), "burst"}
	}
	return oneUnless(a.client.SetLimit(a.ctx, a.Topic, l))
}

// LimitText is the limit in short, or – without a limit.
func (l language) LimitText(of store.Limit) string {
	var parts []string
	if of.Concurrency > 0 {
		parts = append(parts, l.T("limit.at_a_time", number(of.Concurrency)))
	}
	if of.Rate > 0 {
		parts = append(parts, l.RateText(of))
	}
	return cmp.Or(strings.Join(parts, ", "), "–")
}

func (l language) RateText(of store.Limit) string {
	text := duration.Rate(of.Rate)
	if of.Burst > 0 {
		text += ", " + l.T("limit.at_once", number(of.Burst))
	}
	return text
}

// slowedOf returns the paused and the limited topics: paused ones first, then those with most throttled jobs.
func slowedOf(s *state) (all []topicRow) {
	seen := map[string]bool{}
	for _, counts := range s.Topics {
		if t := rowOf(counts, s.Pauses); t.Pause != nil || t.IsLimited() {
			seen[t.Topic] = true
			all = append(all, t)
		}
	}
	for _, p := range s.Pauses {
		if !seen[p.Topic] { // a topic without jobs
			all = append(all, rowOf(inspect.TopicCounts{Topic: p.Topic}, s.Pauses))
		}
	}
	isPaused := func(t topicRow) int {
		if t.Pause != nil {
			return 1
		}
		return 0
	}
	slices.SortFunc(all, func(a, b topicRow) int {
		return cmp.Or(cmp.Compare(isPaused(b), isPaused(a)), cmp.Compare(b.Throttled, a.Throttled), strings.Compare(a.Topic, b.Topic))
	})
	return all
}
