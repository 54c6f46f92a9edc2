package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

const (
	// consumedSize is how many topics the page of consumers shows at a time.
	consumedSize = 25
	// maxPrograms is how many programs it shows, maxTopics how many topics of each.
	maxPrograms, maxTopics = 25, 5
)

// consumed is a topic as its consumers have it.
type consumed struct {
	topicRow
	Listening int // inspect.Unknown if nobody knows
}

// IsAlone reports whether it has ready jobs, which nothing keeps back, and nobody is seen to consume them.
func (t consumed) IsAlone() bool {
	return t.Ready > 0 && t.Listening == 0 && t.Reserved == 0 && !t.Paused && t.Held == 0
}

// consumedOrders are what they are sorted by: those come first that have more. Equal ones come by name.
var consumedOrders = map[string]func(consumed) int{
	"name":      func(consumed) int { return 0 },
	"listening": func(t consumed) int { return t.Listening },
	"ready":     func(t consumed) int { return t.Ready },
	"reserved":  func(t consumed) int { return t.Reserved },
	"overdue":   func(t consumed) int { return int(t.AtLeast) },
}

// listenersTable is a table of programs that wait.
type listenersTable struct {
	Shown  []inspect.Listener
	Others int // how many more there are
	All    int
}

func listenersOf(all []inspect.Listener) listenersTable {
	shown := all[:min(len(all), maxPrograms)]
	return listenersTable{shown, len(all) - len(shown), len(all)}
}

// TopicsOf are those of a program's topics that are shown.
func (listenersTable) TopicsOf(l inspect.Listener) []string {
	return l.Topics[:min(len(l.Topics), maxTopics)]
}

// OthersOf is how many more it has.
func (listenersTable) OthersOf(l inspect.Listener) int { return max(len(l.Topics)-maxTopics, 0) }

// consumersData is what the page of consumers shows: the programs that wait for jobs, and the topics for which somebody does, or ought to.
type consumersData struct {
	view
	paging
	Programs listenersTable
	Topics   []consumed
	Any      bool // whether there are topics without the filter
	Refused  bool // whether this Redis user may not know who listens
}

// Columns are those of the table.
func (consumersData) Columns() []column {
	return []column{
		{"name", "topic", false}, {"listening", "consumers.listening", true}, {"reserved", "state.reserved", true},
		{"ready", "state.ready", true}, {"", "topics.change", true}, {"overdue", "topics.overdue", false},
	}
}

// consumers are the programs that wait, and the topics that somebody consumes, or ought to.
func (d *Dashboard) consumers(p *page) error {
	v, err := d.sampler.look(p.ctx)
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

// names reports whether a program, or a topic of it, has the text in its name that is looked for.
func (data *consumersData) names(l inspect.Listener) bool {
	has := func(name string) bool { return strings.Contains(name, data.Contains) }
	return has(l.Name) || has(l.Host) || slices.ContainsFunc(l.Topics, has)
}

// waitedFor are the topics as the operator is asked who waits for them.
func waitedFor(topics []inspect.TopicCounts) []store.WaitedFor {
	all := make([]store.WaitedFor, len(topics))
	for i, t := range topics {
		all[i] = store.WaitedFor{Topic: t.Topic, Limited: t.Limit != (store.Limit{})}
	}
	return all
}
