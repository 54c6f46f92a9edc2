package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

// shareSample is how many waiting jobs are sampled to estimate their distribution over topics.
const shareSample = 2000

// topicRow is a row of the table of topics.
type topicRow struct {
	inspect.TopicCounts
	Waiting int // estimated; inspect.Unknown if unreadable
	Paused  bool
	Limited bool
}

// rowOf returns the row of a topic whose waiting jobs are unknown.
func rowOf(t inspect.TopicCounts, pauses inspect.Pauses) topicRow {
	return topicRow{t, inspect.Unknown, pauses.Of(t.Topic) != nil, t.Limit != (store.Limit{})}
}

// jobs returns how many jobs it has, as far as known.
func (t topicRow) jobs() int {
	return max(t.Ready, 0) + max(t.Reserved, 0) + max(t.Dead, 0) + max(t.Waiting, 0)
}

// topicOrders are the sort orders: larger values first, then by name.
var topicOrders = map[string]func(topicRow) int{
	"name":     func(topicRow) int { return 0 },
	"jobs":     topicRow.jobs,
	"waiting":  func(t topicRow) int { return t.Waiting },
	"ready":    func(t topicRow) int { return t.Ready },
	"reserved": func(t topicRow) int { return t.Reserved },
	"dead":     func(t topicRow) int { return t.Dead },
	"overdue":  func(t topicRow) int { return int(t.AtLeast) },
}

// topicsData is the content of the page of all topics.
type topicsData struct {
	view
	paging     // sorted by one of topicOrders
	Topics     []topicRow
	Known      int  // number of topics
	Looked     int  // number examined: those used last
	Searched   bool // only names were searched
	Shares     inspect.Shares
	Unreadable []piece // why there are no shares
	Refused    bool    // the Redis user may not list waiters
}

// Columns returns the table's columns.
func (topicsData) Columns() []column {
	return []column{
		{"name", "topic", false}, {"waiting", "state.waiting", true}, {"ready", "state.ready", true}, {"reserved", "state.reserved", true},
		{"dead", "state.dead", true}, {"", "topics.change", true}, {"overdue", "topics.overdue", false},
	}
}

// KnownText is the number of topics; with several partitions it may be a lower bound.
func (t topicsData) KnownText() string {
	if len(t.Partitions) > 1 {
		return "≥ " + number(t.Known)
	}
	return number(t.Known)
}

// Shows returns the filters.
func (topicsData) Shows() []string { return []string{"", "late", "alone"} }

// topics serves a page of topics.
func (d *Dashboard) topics(p *page) error {
	v, err := d.sampler.latest(p.ctx)
	if err != nil {
		return err
	}
	p.setClock(v.Time)
	data := topicsData{view: v, paging: p.paging("/ui/topics", "jobs"), Looked: len(v.Topics)}
	data.Known = max(v.Known, data.Looked)
	if topicOrders[data.Sort] == nil {
		data.Sort = "jobs"
	}
	if !slices.Contains(data.Shows(), data.Show) {
		data.Show = ""
	}
	waiting := map[string]int{}
	if data.Shares, err = d.inspector.Shares(p.ctx, shareSample); err != nil {
		data.Unreadable = pieces(err.Error())
	}
	for _, share := range data.Shares.Topics {
		waiting[share.Topic] = share.Jobs
	}
	var counts []inspect.TopicCounts
	data.Searched = data.Contains != "" && data.Show == "" && data.Looked < data.Known
	if data.Searched {
		if counts, err = d.search(p, &data); err != nil {
			return err
		}
	} else {
		counts = withShares(v.Topics, data.Shares.Topics)
	}
	pauses, err := d.inspector.PausedIfAllowed(p.ctx)
	if err != nil {
		return err
	}
	for _, t := range counts {
		row := rowOf(t, pauses)
		row.Waiting = waiting[t.Topic]
		if data.Unreadable != nil {
			row.Waiting = inspect.Unknown
		}
		data.Topics = append(data.Topics, row)
	}
	switch data.Show {
	case "late":
		data.Topics = slices.DeleteFunc(data.Topics, func(t topicRow) bool { return !isNeglected(t.TopicCounts, pauses) })
	case "alone":
		if err := d.leaveAlone(p, &data, pauses); err != nil {
			return err
		}
	}
	if !data.Searched {
		data.sort()
	}
	return p.show("topics", data)
}

// leaveAlone keeps the topics whose ready jobs have no visible consumer.
func (d *Dashboard) leaveAlone(p *page, data *topicsData, pauses inspect.Pauses) error {
	var ready []inspect.TopicCounts
	data.Topics = slices.DeleteFunc(data.Topics, func(t topicRow) bool {
		is := t.Ready > 0 && !isBlocked(t.TopicCounts, pauses)
		if is {
			ready = append(ready, t.TopicCounts)
		}
		return !is
	})
	listening, err := d.inspector.Waiters(p.ctx, waitedFor(ready))
	if err != nil {
		return err
	}
	data.Refused = listening == nil
	i := -1
	data.Topics = slices.DeleteFunc(data.Topics, func(t topicRow) bool {
		i++
		return data.Refused || !data.IsAlone(t.TopicCounts, listening[i])
	})
	return nil
}

// sort sorts the matches and keeps the page.
func (t *topicsData) sort() {
	rows := slices.DeleteFunc(t.Topics, func(r topicRow) bool { return !strings.Contains(r.Topic, t.Contains) })
	by := topicOrders[t.Sort]
	slices.SortFunc(rows, func(a, b topicRow) int { return cmp.Or(cmp.Compare(by(b), by(a)), strings.Compare(a.Topic, b.Topic)) })
	t.Topics = cutPage(&t.paging, rows)
}

// search searches more topics than are counted, and sorts them by name.
func (d *Dashboard) search(p *page, data *topicsData) ([]inspect.TopicCounts, error) {
	data.Sort = "name"
	q := inspect.TopicQuery{Contains: data.Contains, Limit: pageSize, First: (data.Page - 1) * pageSize}
	found, err := d.inspector.Topics(p.ctx, q)
	if err != nil {
		return nil, err
	}
	data.First, data.Matched, data.Known, data.Looked = q.First+1, found.Matched, max(data.Known, found.Known), found.Looked
	isNamed := func(t inspect.TopicCounts) bool { return t.Topic == data.Contains }
	if found.Looked < found.Known && data.Page == 1 && !slices.ContainsFunc(found.Topics, isNamed) {
		// A topic with exactly this name is found even if it was not used lately.
		named, known, err := d.inspector.Topic(p.ctx, data.Contains)
		if err != nil {
			return nil, err
		}
		if known {
			found.Topics = append(named.Topics, found.Topics...)
			data.Matched++
		}
	}
	data.Last = data.First + len(found.Topics) - 1
	return found.Topics, nil
}

// withShares merges the topics, sorted by name, with those known only from waiting jobs. Schedules are not
// jobs to the user and have their own page.
func withShares(topics []inspect.TopicCounts, shares []inspect.Share) []inspect.TopicCounts {
	all := slices.Clone(topics)
	for _, share := range shares {
		if _, is := slices.BinarySearchFunc(topics, share.Topic, func(t inspect.TopicCounts, name string) int { return strings.Compare(t.Topic, name) }); !is && share.Topic != store.ScheduleTopic {
			all = append(all, inspect.TopicCounts{Topic: share.Topic})
		}
	}
	return all
}
