package dashboard

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/internal/operator"
	"github.com/mix-basic/delayer/internal/store"
)

// maxConsumed is how many topics the page of consumers shows.
const maxConsumed = 100

// consumed is a topic as its consumers have it.
type consumed struct {
	operator.TopicCounts
	Listening int // operator.Unknown if nobody knows
}

// consumersData is what the page of consumers shows. Redis has no list of them: what it knows is for
// which topics somebody listens, and what they hold.
type consumersData struct {
	view
	Topics  []consumed
	Others  int  // how many more topics there are
	Refused bool // whether this Redis user may not know who listens
}

// consumers are the topics that somebody consumes, or ought to.
func (d *Dashboard) consumers(p *page) error {
	v, err := d.sampler.look(p.ctx)
	if err != nil {
		return err
	}
	p.setClock(v.Time)
	listening, err := d.operator.Waiters(p.ctx, waitedFor(v.Topics))
	if err != nil {
		return err
	}
	data := consumersData{view: v, Refused: listening == nil}
	for i, t := range v.Topics {
		c := consumed{TopicCounts: t, Listening: operator.Unknown}
		if listening != nil {
			c.Listening = listening[i]
		}
		if t.Ready != 0 || t.Reserved != 0 || c.Listening > 0 {
			data.Topics = append(data.Topics, c)
		}
	}
	// Those first whose jobs have waited longest for a consumer.
	slices.SortFunc(data.Topics, func(a, b consumed) int {
		return cmp.Or(cmp.Compare(b.AtLeast, a.AtLeast), cmp.Compare(b.Ready, a.Ready), cmp.Compare(b.Reserved, a.Reserved), strings.Compare(a.Topic, b.Topic))
	})
	shown := min(len(data.Topics), maxConsumed)
	data.Topics, data.Others = data.Topics[:shown], len(data.Topics)-shown
	return p.show("consumers", data)
}

// waitedFor are the topics as the operator is asked who waits for them.
func waitedFor(topics []operator.TopicCounts) []store.WaitedFor {
	all := make([]store.WaitedFor, len(topics))
	for i, t := range topics {
		all[i] = store.WaitedFor{Topic: t.Topic, Limited: t.Limit != (store.Limit{})}
	}
	return all
}
