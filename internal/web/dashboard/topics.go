package dashboard

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/internal/operator"
)

// shareSample is how many waiting jobs are looked at to tell how they divide among the topics.
const shareSample = 2000

// topicRow is a topic among others.
type topicRow struct {
	operator.TopicCounts
	Waiting int    // about; Unknown if it can't be told
	Change  string // of the number of ready jobs, a second; – if it can't be told
}

// jobs are how many it has, of which nobody knows all.
func (t topicRow) jobs() int {
	return max(t.Ready, 0) + max(t.Reserved, 0) + max(t.Dead, 0) + max(t.Waiting, 0)
}

// topicOrders compare topics: those come first that have more. Equal ones come by name.
var topicOrders = map[string]func(a, b topicRow) int{
	"name":     func(a, b topicRow) int { return strings.Compare(a.Topic, b.Topic) },
	"jobs":     func(a, b topicRow) int { return cmp.Compare(b.jobs(), a.jobs()) },
	"waiting":  func(a, b topicRow) int { return cmp.Compare(b.Waiting, a.Waiting) },
	"ready":    func(a, b topicRow) int { return cmp.Compare(b.Ready, a.Ready) },
	"reserved": func(a, b topicRow) int { return cmp.Compare(b.Reserved, a.Reserved) },
	"dead":     func(a, b topicRow) int { return cmp.Compare(b.Dead, a.Dead) },
	"overdue":  func(a, b topicRow) int { return cmp.Compare(b.AtLeast, a.AtLeast) },
}

// topicsData is what the page of all topics shows.
type topicsData struct {
	Contains   string // the text that their names contain
	Sort       string // one of topicOrders
	Page       int    // from 1
	Topics     []topicRow
	First      int  // which one of those that match is the first, from 1
	Matched    int  // how many match
	Known      int  // how many topics there are
	Looked     int  // at how many of them, those that were used last
	Searched   bool // whether only their names were looked at
	Shares     operator.Shares
	Unreadable []piece // why there are no shares
}

// column is one of the table: what it sorts by, if it does, and the key of its title.
type column struct {
	Key, Label string
	Number     bool
}

// Columns are those of the table.
func (topicsData) Columns() []column {
	return []column{
		{"name", "topic", false}, {"waiting", "state.waiting", true}, {"ready", "state.ready", true}, {"reserved", "state.reserved", true},
		{"dead", "state.dead", true}, {"", "topics.change", true}, {"overdue", "topics.overdue", false},
	}
}

// Pages are how many there are.
func (t topicsData) Pages() int { return max((t.Matched+pageSize-1)/pageSize, 1) }

// Last is which one of those that match is the last on the page.
func (t topicsData) Last() int { return t.First + len(t.Topics) - 1 }

// Previous and Next are the pages beside it.
func (t topicsData) Previous() int { return t.Page - 1 }
func (t topicsData) Next() int     { return t.Page + 1 }

// At is the link to another page.
func (t topicsData) At(page int) string {
	return link("/ui/topics", "q", t.Contains, "sort", t.Sort, "page", strconv.Itoa(page))
}

// By is the link to the first page in another order.
func (t topicsData) By(sort string) string {
	return link("/ui/topics", "q", t.Contains, "sort", sort)
}

// topics are some of the topics.
func (d *Dashboard) topics(p *page) error {
	data := topicsData{Contains: p.form.Get("q"), Sort: p.form.Get("sort"), Page: max(countOf(p.form.Get("page")), 1)}
	if topicOrders[data.Sort] == nil {
		data.Sort = "jobs"
	}
	v, err := d.sampler.look(p.ctx)
	if err != nil {
		return err
	}
	p.setClock(v.Time)
	data.Known, data.Looked = max(v.Known, len(v.Topics)), len(v.Topics)
	shares, err := d.operator.Shares(p.ctx, shareSample)
	if err != nil {
		data.Unreadable = pieces(err.Error())
	}
	data.Shares = shares
	rows := rowsOf(v.Topics, shares, err == nil)
	if data.Contains == "" || data.Known == len(v.Topics) {
		data.sort(rows)
	} else if err := d.search(p, &data, rows); err != nil {
		return err
	}
	for i := range data.Topics {
		data.Topics[i].Change = change(v.Changes, data.Topics[i].Topic)
	}
	return p.show("topics", data)
}

// sort has those that match, in order, and of them the page.
func (t *topicsData) sort(rows []topicRow) {
	rows = slices.DeleteFunc(rows, func(r topicRow) bool { return !strings.Contains(r.Topic, t.Contains) })
	t.Matched = len(rows)
	t.Page = min(t.Page, t.Pages())
	slices.SortFunc(rows, func(a, b topicRow) int { return cmp.Or(topicOrders[t.Sort](a, b), strings.Compare(a.Topic, b.Topic)) })
	rows = rows[(t.Page-1)*pageSize:]
	t.First, t.Topics = (t.Page-1)*pageSize+1, rows[:min(len(rows), pageSize)]
}

// search looks among more topics than have been counted, which come by name then.
func (d *Dashboard) search(p *page, data *topicsData, counted []topicRow) error {
	data.Sort, data.Searched = "name", true
	q := operator.TopicQuery{Contains: data.Contains, Limit: pageSize, First: (data.Page - 1) * pageSize}
	found, err := d.operator.Topics(p.ctx, q)
	if err != nil {
		return err
	}
	data.First, data.Matched, data.Known, data.Looked = q.First+1, found.Matched, found.Known, found.Looked
	isNamed := func(t operator.TopicCounts) bool { return t.Topic == data.Contains }
	if found.Looked < found.Known && data.Page == 1 && !slices.ContainsFunc(found.Topics, isNamed) {
		// That of exactly this name is found wherever it is.
		named, known, err := d.operator.Topic(p.ctx, data.Contains)
		if err != nil {
			return err
		}
		if known {
			found.Topics = append(named.Topics, found.Topics...)
			data.Matched++
		}
	}
	for _, t := range found.Topics {
		row := topicRow{TopicCounts: t}
		if i, is := slices.BinarySearchFunc(counted, t.Topic, func(r topicRow, name string) int { return strings.Compare(r.Topic, name) }); is {
			row.Waiting = counted[i].Waiting
		}
		data.Topics = append(data.Topics, row)
	}
	return nil
}

// rowsOf are the topics that are known, or have waiting jobs, by name.
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
	slices.SortFunc(rows, topicOrders["name"])
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
