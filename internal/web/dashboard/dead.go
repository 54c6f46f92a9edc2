package dashboard

import (
	"github.com/mix-basic/delayer/internal/operator"
)

// grouped is how many dead letters of a topic are looked at to group them.
const grouped = 2000

// maxGroups is how many groups are shown.
const maxGroups = 100

// dead are the topics that have dead letters.
func (d *Dashboard) dead(p *page) error {
	counts, err := d.operator.DeadTopics(p.ctx)
	if err != nil {
		return err
	}
	p.setClock(counts.Time)
	var topics []operator.TopicCounts
	for _, t := range counts.Topics {
		if t.Dead != 0 {
			topics = append(topics, t)
		}
	}
	return p.show("dead", "dead", pieces(p.text("nav.dead")), topics)
}

// deadData is what the page of a topic's dead letters shows.
type deadData struct {
	Topic      string
	Groups     operator.DeadGroups
	Page       operator.Page
	Unreadable []piece // why there are neither
	First      bool    // whether it is the first page, which has the groups
}

// Shown are the groups that are shown: where each letter has an error of its own there are as many
// groups as letters.
func (d deadData) Shown() []operator.DeadGroup {
	return d.Groups.Groups[:min(len(d.Groups.Groups), maxGroups)]
}

// deadTopic are a topic's dead letters: by what went wrong, and each.
func (d *Dashboard) deadTopic(p *page) error {
	given, err := p.givens("topic", "cursor")
	if err != nil {
		return err
	}
	data := deadData{Topic: given[0], First: given[1] == ""}
	if data.Topic == "" {
		return &wrong{"wrong.missing", "topic"}
	}
	if data.First {
		data.Groups, err = d.operator.DeadGroups(p.ctx, data.Topic, grouped)
	}
	if err == nil {
		data.Page, err = d.operator.Browse(p.ctx, operator.Query{Topic: data.Topic, State: operator.Dead, Cursor: given[1]})
	}
	if unreadable(err) {
		data.Unreadable, err = pieces(err.Error()), nil
	}
	if err != nil {
		return err
	}
	return p.show("dead_topic", "dead", pieces(cut(data.Topic, short)), data)
}
