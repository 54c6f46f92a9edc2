package dashboard

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

// grouped is how many dead letters of a topic are grouped.
const grouped = 2000

// lettersOf is how many of a topic's newest dead letters the index groups.
const lettersOf = 50

type deadTopic struct {
	inspect.TopicCounts
	store.DeadLately
	Top *inspect.DeadGroup // largest group of the newest letters; nil if they can't be read
}

func (t deadTopic) name() string { return t.Topic }

var deadColumns = []column[deadTopic]{
	{"name", "topic", false, nil},
	{"letters", "dead.letters", true, func(t deadTopic) int64 { return int64(t.Dead) }},
	{"growth", "dead.growth", true, func(t deadTopic) int64 { return int64(t.Since) }},
	{"newest", "dead.newest", false, func(t deadTopic) int64 { return t.Newest.UnixMilli() }},
	{"", "dead.top", false, nil},
}

type deadIndex struct {
	inspect.Counts
	paging
	Topics []deadTopic
}

func (d *Dashboard) dead(p *page) error {
	counts, err := d.inspector.DeadTopics(p.ctx)
	if err != nil {
		return err
	}
	p.setClock(counts.Time)
	var names []string
	data := deadIndex{Counts: counts, paging: p.paging(paging{Path: "ui/dead", Sort: "newest", Columns: deadColumns})}
	for _, t := range counts.Topics {
		if t.Dead != 0 {
			names = append(names, t.Topic)
			data.Topics = append(data.Topics, deadTopic{TopicCounts: t})
		}
	}
	lately, err := d.inspector.DeadLately(p.ctx, names, p.now.Add(-time.Hour))
	if err != nil {
		return err
	}
	for i := range data.Topics {
		data.Topics[i].DeadLately = lately[i]
	}
	data.Topics = sortPage(&data.paging, deadColumns, data.Topics)
	for i := range data.Topics {
		groups, err := d.inspector.DeadGroups(p.ctx, data.Topics[i].Topic, lettersOf)
		if err != nil && !unreadable(err) {
			break // shows what it has so far
		}
		if len(groups.Groups) > 0 {
			top := slices.MaxFunc(groups.Groups, func(a, b inspect.DeadGroup) int { return cmp.Compare(a.Letters, b.Letters) })
			data.Topics[i].Top = &top
		}
	}
	return p.show("dead", data)
}

type deadData struct {
	listing
	Topic    string
	Contains string // text to search for
	First    bool   // first page, which also shows the groups
	Groups   inspect.DeadGroups
}

// deadTopic serves a topic's dead letters: in groups and one by one, or those that contain a text.
func (d *Dashboard) deadTopic(p *page) (err error) {
	if err := p.needs("topic"); err != nil {
		return err
	}
	q := inspect.Query{Topic: p.form.Get("topic"), State: inspect.Dead, Cursor: p.form.Get("cursor")}
	data := deadData{Topic: q.Topic, Contains: p.form.Get("q")}
	data.First = q.Cursor == "" && data.Contains == ""
	if data.First {
		data.Groups, err = d.inspector.DeadGroups(p.ctx, q.Topic, grouped)
	}
	if err == nil {
		data.listing, err = d.browse(p.ctx, q, containing(data.Contains))
	} else {
		data.listing, err = unlisted(err)
	}
	if err != nil {
		return err
	}
	return p.show("dead_topic", data)
}

// containing matches dead letters that contain the text, as far as a page has them.
func containing(text string) func(inspect.Job) bool {
	if text == "" {
		return nil
	}
	return func(j inspect.Job) bool {
		return slices.ContainsFunc([]string{j.ID, j.Reason, j.Error, j.Body}, func(s string) bool { return strings.Contains(s, text) })
	}
}
