package dashboard

import (
	"slices"
	"strings"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

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
