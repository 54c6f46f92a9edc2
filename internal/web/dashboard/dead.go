package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

// grouped is how many dead letters of a topic are looked at to group them.
const grouped = 2000

// maxGroups is how many groups are shown.
const maxGroups = 100

// lettersOf is how many of the newest dead letters of a topic the index looks at to tell what goes wrong there.
const lettersOf = 50

// deadTopic is a topic of the index.
type deadTopic struct {
	inspect.TopicCounts
	store.DeadLately
	Top *inspect.DeadGroup // the largest group of the newest; nil if it can't be read
}

// deadOrders are what they are sorted by: those come first that have more. Equal ones come by name.
var deadOrders = map[string]func(deadTopic) int64{
	"name":    func(deadTopic) int64 { return 0 },
	"letters": func(t deadTopic) int64 { return int64(t.Dead) },
	"newest":  func(t deadTopic) int64 { return t.Newest.UnixMilli() },
	"growth":  func(t deadTopic) int64 { return int64(t.Since) },
}

// deadIndex is what the page of all dead letters shows.
type deadIndex struct {
	inspect.Counts
	paging
	Topics []deadTopic
}

// Columns are those of the table.
func (deadIndex) Columns() []column {
	return []column{{"name", "topic", false}, {"letters", "dead.letters", true}, {"growth", "dead.growth", true}, {"newest", "dead.newest", false}, {"", "dead.top", false}}
}

// dead are the topics that have dead letters.
func (d *Dashboard) dead(p *page) error {
	counts, err := d.inspector.DeadTopics(p.ctx)
	if err != nil {
		return err
	}
	p.setClock(counts.Time)
	var names []string
	data := deadIndex{Counts: counts, paging: p.paging("/ui/dead", "newest")}
	for _, t := range counts.Topics {
		if t.Dead != 0 {
			names = append(names, t.Topic)
			data.Topics = append(data.Topics, deadTopic{TopicCounts: t})
		}
	}
	lately, err := d.inspector.DeadLately(p.ctx, names, p.now.Add(-hour))
	if err != nil {
		return err
	}
	for i := range data.Topics {
		data.Topics[i].DeadLately = lately[i]
	}
	by := orderOf(deadOrders, &data.paging)
	slices.SortFunc(data.Topics, func(a, b deadTopic) int {
		return cmp.Or(cmp.Compare(by(b), by(a)), strings.Compare(a.Topic, b.Topic))
	})
	data.Topics = cutPage(&data.paging, data.Topics)
	for i := range data.Topics {
		groups, err := d.inspector.DeadGroups(p.ctx, data.Topics[i].Topic, lettersOf)
		if err != nil && !unreadable(err) {
			break // what is on the page is worth more than this
		}
		if len(groups.Groups) > 0 {
			top := slices.MaxFunc(groups.Groups, func(a, b inspect.DeadGroup) int { return cmp.Compare(a.Letters, b.Letters) })
			data.Topics[i].Top = &top
		}
	}
	return p.show("dead", data)
}

// deadData is what the page of a topic's dead letters shows.
type deadData struct {
	listing
	Topic    string
	Contains string // the text that is looked for
	First    bool   // whether it is the first page of all, which has the groups
	Groups   inspect.DeadGroups
}

// Shown are the groups that are shown: where each letter has an error of its own there are as many
// groups as letters.
func (d deadData) Shown() []inspect.DeadGroup {
	return d.Groups.Groups[:min(len(d.Groups.Groups), maxGroups)]
}

// deadTopic are a topic's dead letters: by what went wrong, and each; or those that contain a text.
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

// containing tells the dead letters in which that text is, as far as a page has them.
func containing(text string) func(inspect.Job) bool {
	if text == "" {
		return nil
	}
	return func(j inspect.Job) bool {
		return slices.ContainsFunc([]string{j.ID, j.Reason, j.Error, j.Body}, func(s string) bool { return strings.Contains(s, text) })
	}
}
