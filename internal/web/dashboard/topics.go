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

// topicRow is a topic in a table.
type topicRow struct {
	inspect.TopicCounts
	Pause     *store.Pause // nil if it is not paused, or pauses can't be read
	Waiting   int          // estimated; inspect.Unknown if unreadable
	Listening int          // inspect.Unknown if unknown
}

// rowOf returns the row of a topic whose waiting jobs and waiters are unknown.
func rowOf(t inspect.TopicCounts, pauses inspect.Pauses) topicRow {
	return topicRow{t, pauses.Of(t.Topic), inspect.Unknown, inspect.Unknown}
}

func (t topicRow) name() string { return t.Topic }

func (t topicRow) IsLimited() bool { return t.Limit != (store.Limit{}) }

// jobs returns how many jobs it has, as far as known.
func (t topicRow) jobs() int64 {
	return int64(max(t.Ready, 0) + max(t.Reserved, 0) + max(t.Dead, 0) + max(t.Waiting, 0))
}

// IsAlone reports whether the topic has ready jobs, neither paused nor throttled, and no visible consumer.
func (t topicRow) IsAlone() bool {
	return t.Ready > 0 && isAlone(t.TopicCounts, t.Listening) && t.Pause == nil && t.Throttled == 0
}

var topicColumns = []column[topicRow]{
	{"jobs", "", false, topicRow.jobs},
	{"name", "topic", false, nil},
	{"waiting", "state.waiting", true, func(t topicRow) int64 { return int64(t.Waiting) }},
	{"ready", "state.ready", true, ready},
	{"reserved", "state.reserved", true, reserved},
	{"dead", "state.dead", true, func(t topicRow) int64 { return int64(t.Dead) }},
	{"overdue", "topics.overdue", false, overdue},
}

func ready(t topicRow) int64    { return int64(t.Ready) }
func reserved(t topicRow) int64 { return int64(t.Reserved) }
func overdue(t topicRow) int64  { return int64(t.AtLeast) }

type topicsData struct {
	*state
	paging
	Topics     []topicRow
	Known      int  // number of topics
	Looked     int  // number examined: those used last
	Searched   bool // only names were searched
	Shares     inspect.Shares
	Unreadable []piece // why there are no shares
	Refused    bool    // the Redis user may not list waiters
}

// KnownText is the number of topics; with several partitions it may be a lower bound.
func (t topicsData) KnownText() string {
	if len(t.Partitions) > 1 {
		return "≥ " + number(t.Known)
	}
	return number(t.Known)
}

func (d *Dashboard) topics(p *page) error {
	s, err := p.state()
	if err != nil {
		return err
	}
	data := topicsData{state: s, Looked: len(s.Topics), Known: max(s.Known, len(s.Topics))}
	data.paging = p.paging(paging{Path: "ui/topics", Sort: "jobs", Shows: []string{"", "late", "alone"}, Columns: topicColumns})
	data.Shares, err = d.inspector.Shares(p.ctx, shareSample)
	if err = cmp.Or(err, data.Shares.Broken); err != nil {
		data.Unreadable = pieces(err.Error())
	}
	counts := withShares(s.Topics, data.Shares.Topics)
	if data.Searched = data.Contains != "" && data.Show == "" && data.Looked < data.Known; data.Searched {
		if counts, err = d.search(p, &data); err != nil {
			return err
		}
	}
	switch data.Show {
	case "late":
		counts, _ = neglectedOf(counts, s.Pauses)
	case "alone":
		if counts, err = d.alone(p, &data, counts); err != nil {
			return err
		}
	}
	waiting := map[string]int{}
	for _, share := range data.Shares.Topics {
		waiting[share.Topic] = share.Jobs
	}
	for _, t := range counts {
		row := rowOf(t, s.Pauses)
		if data.Unreadable == nil {
			row.Waiting = waiting[t.Topic]
		}
		if data.Searched || strings.Contains(t.Topic, data.Contains) {
			data.Topics = append(data.Topics, row)
		}
	}
	if !data.Searched {
		data.Topics = sortPage(&data.paging, topicColumns, data.Topics)
	}
	return p.show("topics", data)
}

// alone returns the topics whose ready jobs have no visible consumer.
func (d *Dashboard) alone(p *page, data *topicsData, counts []inspect.TopicCounts) (alone []inspect.TopicCounts, err error) {
	counts = slices.DeleteFunc(counts, func(t inspect.TopicCounts) bool { return t.Ready <= 0 || data.Pauses.Block(t) })
	listening, err := d.inspector.Waiters(p.ctx, waitedFor(counts))
	data.Refused = listening == nil
	for i, n := range listening {
		if isAlone(counts[i], n) {
			alone = append(alone, counts[i])
		}
	}
	return alone, err
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
