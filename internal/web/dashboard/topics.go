package dashboard

import (
	"cmp"
	"slices"
	"strconv"
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

// consumedSize is the number of topics per page.
const consumedSize = 25

var consumerColumns = []column[topicRow]{
	{"name", "topic", false, nil},
	{"listening", "consumers.listening", true, func(t topicRow) int64 { return int64(t.Listening) }},
	{"reserved", "state.reserved", true, reserved},
	{"ready", "state.ready", true, ready},
	{"overdue", "topics.overdue", false, overdue},
}

type consumersData struct {
	*state
	paging
	Programs []inspect.Listener
	Topics   []topicRow
	Any      bool // there are topics without the filter
	Refused  bool // the Redis user may not list waiters
}

// consumers serves the page of waiting programs and of topics that are or should be consumed.
func (d *Dashboard) consumers(p *page) error {
	s, err := p.state()
	if err != nil {
		return err
	}
	listeners, err := d.inspector.Listeners(p.ctx, waitedFor(s.Topics))
	if err != nil {
		return err
	}
	data := consumersData{state: s, Refused: listeners == nil}
	data.paging = p.paging(paging{Path: "ui/consumers", Sort: "overdue", Columns: consumerColumns, size: consumedSize})
	if listeners != nil {
		data.Programs = slices.DeleteFunc(listeners.Programs, func(l inspect.Listener) bool { return !data.names(l) })
	}
	for i, t := range s.Topics {
		row := rowOf(t, s.Pauses)
		if listeners != nil {
			row.Listening = listeners.Clients[i]
		}
		if t.Ready != 0 || t.Reserved != 0 || row.Listening > 0 {
			data.Any = true
			if strings.Contains(t.Topic, data.Contains) {
				data.Topics = append(data.Topics, row)
			}
		}
	}
	data.Topics = sortPage(&data.paging, consumerColumns, data.Topics, ready, reserved)
	return p.show("consumers", data)
}

// names reports whether the program or one of its topics contains the filter's text.
func (data *consumersData) names(l inspect.Listener) bool {
	has := func(name string) bool { return strings.Contains(name, data.Contains) }
	return has(l.Name) || has(l.Host) || slices.ContainsFunc(l.Topics, has)
}

// waitedFor converts topics for Inspector.Waiters.
func waitedFor(topics []inspect.TopicCounts) []store.WaitedFor {
	all := make([]store.WaitedFor, len(topics))
	for i, t := range topics {
		all[i] = store.WaitedFor{Topic: t.Topic, Limited: t.Limit != (store.Limit{})}
	}
	return all
}

// paging is the part of a list that a page shows, and its order.
type paging struct {
	Path     string
	Shows    []string // filters, by their names in links; the first, "", shows all
	Columns  any      // []column of the rows
	Contains string   // text to search for
	Show     string   // one of Shows
	Sort     string   // key of a column
	Page     int      // from 1
	First    int      // number of the first shown match, from 1
	Last     int
	Matched  int // number of matches
	size     int
}

// column is a column of a table of T: the key of its title, and how rows are sorted by it: larger values first,
// or by name. One without a title is only an order, one without a key only a column.
type column[T any] struct {
	Key, Label string
	Number     bool
	by         func(T) int64 // nil: by name
}

type row interface{ name() string }

// paging completes g, which has the defaults, from the request.
func (p *page) paging(g paging) paging {
	g.Contains, g.Show, g.Sort = p.form.Get("q"), p.form.Get("show"), cmp.Or(p.form.Get("sort"), g.Sort)
	g.Page, g.size = max(countOf(p.form.Get("page")), 1), cmp.Or(g.size, pageSize)
	if !slices.Contains(g.Shows, g.Show) {
		g.Show = ""
	}
	return g
}

// sortPage sorts the rows by the requested column, then by ties and name, and returns those on the page.
func sortPage[T row](g *paging, columns []column[T], rows []T, ties ...func(T) int64) []T {
	at := slices.IndexFunc(columns, func(c column[T]) bool { return c.Key == g.Sort })
	if at < 0 {
		at, g.Sort = 0, columns[0].Key
	}
	if by := columns[at].by; by != nil {
		ties = append([]func(T) int64{by}, ties...)
	}
	slices.SortFunc(rows, func(a, b T) int {
		for _, by := range ties {
			if order := cmp.Compare(by(b), by(a)); order != 0 {
				return order
			}
		}
		return strings.Compare(a.name(), b.name())
	})
	return cutPage(g, rows)
}

// cutPage returns the part of the list that is on the page.
func cutPage[T any](g *paging, list []T) []T {
	g.Matched = len(list)
	g.Page = min(g.Page, g.Pages())
	first := (g.Page - 1) * g.size
	list = list[first:min(first+g.size, len(list))]
	g.First, g.Last = first+1, first+len(list)
	return list
}

func (g paging) Pages() int { return max((g.Matched+g.size-1)/g.size, 1) }

// PageBeside links to the page that many pages away.
func (g paging) PageBeside(pages int) string {
	return link(g.Path, "q", g.Contains, "show", g.Show, "sort", g.Sort, "page", strconv.Itoa(g.Page+pages))
}

// By links to the first page in another order.
func (g paging) By(sort string) string {
	return link(g.Path, "q", g.Contains, "show", g.Show, "sort", sort)
}

// Only links to the first page with another filter.
func (g paging) Only(show string) string {
	return link(g.Path, "q", g.Contains, "show", show, "sort", g.Sort)
}
