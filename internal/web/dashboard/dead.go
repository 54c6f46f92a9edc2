package dashboard

import (
	"slices"
	"strings"

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
	counts.Topics = slices.DeleteFunc(counts.Topics, func(t operator.TopicCounts) bool { return t.Dead == 0 })
	return p.show("dead", counts)
}

// deadData is what the page of a topic's dead letters shows.
type deadData struct {
	listing
	Topic    string
	Contains string // the text that is looked for
	First    bool   // whether it is the first page of all, which has the groups
	Groups   operator.DeadGroups
}

// Shown are the groups that are shown: where each letter has an error of its own there are as many
// groups as letters.
func (d deadData) Shown() []operator.DeadGroup {
	return d.Groups.Groups[:min(len(d.Groups.Groups), maxGroups)]
}

// deadTopic are a topic's dead letters: by what went wrong, and each; or those that contain a text.
func (d *Dashboard) deadTopic(p *page) (err error) {
	if err := p.needs("topic"); err != nil {
		return err
	}
	q := operator.Query{Topic: p.form.Get("topic"), State: operator.Dead, Cursor: p.form.Get("cursor")}
	data := deadData{Topic: q.Topic, Contains: p.form.Get("q")}
	data.First = q.Cursor == "" && data.Contains == ""
	if data.First {
		data.Groups, err = d.operator.DeadGroups(p.ctx, q.Topic, grouped)
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

// containing tells the dead letters in which that text is, as far as a page has them.
func containing(text string) func(operator.Job) bool {
	if text == "" {
		return nil
	}
	return func(j operator.Job) bool {
		return slices.ContainsFunc([]string{j.ID, j.Reason, j.Error, j.Body}, func(s string) bool { return strings.Contains(s, text) })
	}
}
