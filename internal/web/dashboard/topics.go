package dashboard

import (
	"slices"
	"strings"

	"github.com/mix-basic/delayer/internal/operator"
)

// shareSample is how many waiting jobs are looked at to tell how they divide among the topics.
const shareSample = 2000

// maxTopics is how many topics are shown.
const maxTopics = 1000

// topicRow is a topic among others.
type topicRow struct {
	operator.TopicCounts
	Waiting int    // about; Unknown if it can't be told
	Change  string // of the number of ready jobs, a second; – if it can't be told
}

// topicsData is what the page of all topics shows.
type topicsData struct {
	Topics     []topicRow
	All        int // how many topics there are
	Shares     operator.Shares
	Unreadable []piece // why there are no shares
}

// topics are all topics.
func (d *Dashboard) topics(p *page) error {
	v, err := d.sampler.look(p.ctx)
	if err != nil {
		return err
	}
	p.setClock(v.Time)
	data := topicsData{}
	shares, err := d.operator.Shares(p.ctx, shareSample)
	if err != nil {
		data.Unreadable = pieces(err.Error())
	}
	data.Shares = shares
	data.Topics = rowsOf(v.Topics, shares, err == nil)
	if data.All = len(data.Topics); data.All > maxTopics {
		data.Topics = busiest(data.Topics)
	}
	for i := range data.Topics {
		data.Topics[i].Change = change(v.Changes, data.Topics[i].Topic)
	}
	return p.show("topics", "topics", pieces(p.text("nav.topics")), data)
}

// rowsOf are the topics that are known, or have waiting jobs.
func rowsOf(counts []operator.TopicCounts, shares operator.Shares, known bool) []topicRow {
	rows := make([]topicRow, 0, len(counts))
	place := map[string]int{}
	for _, t := range counts {
		place[t.Topic] = len(rows)
		row := topicRow{TopicCounts: t}
		if !known {
			row.Waiting = operator.Unknown
		}
		rows = append(rows, row)
	}
	for _, share := range shares.Topics {
		i, ok := place[share.Topic]
		if !ok {
			i = len(rows)
			rows = append(rows, topicRow{TopicCounts: operator.TopicCounts{Topic: share.Topic}})
		}
		rows[i].Waiting = share.Jobs
	}
	return byName(rows)
}

// busiest are the topics that have the most jobs.
func busiest(rows []topicRow) []topicRow {
	jobs := func(t topicRow) int { return max(t.Ready, 0) + max(t.Reserved, 0) + max(t.Dead, 0) + max(t.Waiting, 0) }
	slices.SortStableFunc(rows, func(a, b topicRow) int { return jobs(b) - jobs(a) })
	return byName(rows[:maxTopics])
}

func byName(rows []topicRow) []topicRow {
	slices.SortFunc(rows, func(a, b topicRow) int { return strings.Compare(a.Topic, b.Topic) })
	return rows
}

// change is by how much the topic's ready jobs become more or fewer in a second.
func change(changes map[string]float64, topic string) string {
	c, ok := changes[topic]
	switch {
	case !ok:
		return "–"
	case c > 0.05:
		return "+" + rate(c)
	case c < -0.05:
		return "−" + rate(-c)
	}
	return "0"
}

// topicData is what a topic's page shows.
type topicData struct {
	Topic       string
	Counts      *operator.TopicCounts // nil if the topic is not known
	States      []string
	Query       operator.Query
	Page        operator.Page
	Unreadable  []piece // why there is no Page
	All         int     // how many entries there are to look at; Unknown if it can't be told
	LookedInAll int     // how many were looked at, also on the pages before
}

// topic is a topic's page: its jobs in one state, some at a time.
func (d *Dashboard) topic(p *page) error {
	given, err := p.givens("topic", "state", "cursor")
	if err != nil {
		return err
	}
	data := topicData{Topic: given[0], States: []string{operator.Ready, operator.Reserved, operator.Waiting}}
	if data.Topic == "" {
		return &wrong{"wrong.missing", "topic"}
	}
	data.Query = operator.Query{Topic: given[0], State: given[1], Cursor: given[2]}
	if !slices.Contains(data.States, data.Query.State) {
		data.Query.State = operator.Ready
	}
	counts, known, err := d.operator.Topic(p.ctx, data.Topic)
	if err != nil {
		return err
	}
	p.setClock(counts.Time)
	data.All = counts.Pool
	if known {
		data.Counts = &counts.Topics[0]
	}
	if data.Query.State == operator.Ready {
		data.All = operator.Unknown
		if data.Counts != nil {
			data.All = data.Counts.Ready
		}
	}
	data.Page, err = d.operator.Browse(p.ctx, data.Query)
	if err != nil {
		if !unreadable(err) {
			return err
		}
		data.Unreadable = pieces(err.Error())
	}
	data.LookedInAll = countOf(p.form.Get("looked")) + data.Page.Looked
	return p.show("topic", "topics", pieces(cut(data.Topic, short)), data)
}
