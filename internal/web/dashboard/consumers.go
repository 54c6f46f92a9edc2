package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// consumedSize is the number of topics per page.
	consumedSize = 25
	// maxPrograms is the number of programs shown, maxTopics the number of topics shown for each.
	maxPrograms, maxTopics = 25, 5
)

// consumed is a topic from its consumers' point of view.
type consumed struct {
	topicRow
	Listening int // inspect.Unknown if unknown
}

// IsAlone reports whether the topic has ready jobs, neither paused nor throttled, and no visible consumer.
func (t consumed) IsAlone() bool {
	return t.Ready > 0 && t.Listening == 0 && t.Reserved == 0 && !t.Paused && t.Held == 0
}

// consumedOrders are the sort orders: larger values first, then by name.
var consumedOrders = map[string]func(consumed) int{
	"name":      func(consumed) int { return 0 },
	"listening": func(t consumed) int { return t.Listening },
	"ready":     func(t consumed) int { return t.Ready },
	"reserved":  func(t consumed) int { return t.Reserved },
	"overdue":   func(t consumed) int { return int(t.AtLeast) },
}

// listenersTable is a table of waiting programs.
type listenersTable struct {
	Shown  []inspect.Listener
	Others int // number of programs not shown
	All    int
}

func listenersOf(all []inspect.Listener) listenersTable {
	shown := all[:min(len(all), maxPrograms)]
	return listenersTable{shown, len(all) - len(shown), len(all)}
}

// TopicsOf returns the topics of a program that are shown.
func (listenersTable) TopicsOf(l inspect.Listener) []string {
	return l.Topics[:min(len(l.Topics), maxTopics)]
}

// OthersOf returns the number of topics not shown.
func (listenersTable) OthersOf(l inspect.Listener) int { return max(len(l.Topics)-maxTopics, 0) }

// consumersData is the content of the consumers page: waiting programs, and topics that are or should be
// consumed.
type consumersData struct {
	view
	paging
	Programs listenersTable
	Topics   []consumed
	Any      bool // there are topics without the filter
	Refused  bool // the Redis user may not list waiters
}

// Columns returns the table's columns.
func (consumersData) Columns() []column {
	return []column{
		{"name", "topic", false}, {"listening", "consumers.listening", true}, {"reserved", "state.reserved", true},
		{"ready", "state.ready", true}, {"", "topics.change", true}, {"overdue", "topics.overdue", false},
	}
}

// consumers serves the page of waiting programs and of topics that are or should be consumed.
func (d *Dashboard) consumers(p *page) error {
	v, err := d.sampler.latest(p.ctx)
	if err != nil {
		return err
	}
	p.setClock(v.Time)
	listeners, err := d.inspector.Listeners(p.ctx, waitedFor(v.Topics))
	if err != nil {
		return err
	}
	pauses, err := d.inspector.PausedIfAllowed(p.ctx)
	if err != nil {
		return err
	}
	data := consumersData{view: v, paging: p.paging("/ui/consumers", "overdue"), Refused: listeners == nil}
	data.size = consumedSize
	if listeners != nil {
		data.Programs = listenersOf(slices.DeleteFunc(listeners.Programs, func(l inspect.Listener) bool { return !data.names(l) }))
	}
	for i, t := range v.Topics {
		c := consumed{rowOf(t, pauses), inspect.Unknown}
		if listeners != nil {
			c.Listening = listeners.Clients[i]
		}
		if t.Ready != 0 || t.Reserved != 0 || c.Listening > 0 {
			data.Any = true
			if strings.Contains(t.Topic, data.Contains) {
				data.Topics = append(data.Topics, c)
			}
		}
	}
	by := orderOf(consumedOrders, &data.paging)
	slices.SortFunc(data.Topics, func(a, b consumed) int {
		return cmp.Or(cmp.Compare(by(b), by(a)), cmp.Compare(b.Ready, a.Ready), cmp.Compare(b.Reserved, a.Reserved), strings.Compare(a.Topic, b.Topic))
	})
	data.Topics = cutPage(&data.paging, data.Topics)
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
