package wait

import (
	"cmp"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

const maxQueues = 250

// severalTopics is a caller of several topics. It polls for itself alone, which keeps their order. With several partitions
// it first probes all, unless it is aimed, so that it never gets a job of a later topic while another partition has one of an earlier topic.
type severalTopics struct {
	caller
	dispatcher *Dispatcher
	queued     bool // in the turns of a node
	aimed      bool // it polls one partition and has positions only there: see Dispatcher.aim
}

// poll implements topics. If a poll of one of its queues has claimed the caller, it continues after that poll's reply.
func (c *severalTopics) poll() {
	switch {
	case len(c.pending) == 0 || c.queued || c.probes > 0 || c.claimed:
	case c.sorts || len(c.dispatcher.partitions) == 1:
		c.queued = true
		n := c.at().node
		n.turns = append(n.turns, c)
	default:
		c.sorts = true
		c.probe()
		c.dispatcher.expect(c)
	}
}

func (c *severalTopics) polled() {
	if c.aimed || c.comesBack {
		c.dispatcher.missed(c, nil)
	} else {
		c.foundNothing()
	}
}

func (c *severalTopics) refused(err error) {
	if !c.aimed {
		c.retry(err)
		return
	}
	c.note(err)
	c.dispatcher.missed(c, err)
}

// freed implements topics: the caller may have needed to poll while another poll had claimed it.
func (c *severalTopics) freed() { c.poll() }

// probed orders the queues with jobs so that one poll covers all topics of a partition. The partition with the earliest topic comes first.
func (c *severalTopics) probed() {
	if c.dispatcher.stock != nil && c.pollErr == nil {
		c.dispatcher.stock.probed(c.Topics)
	}
	order := map[*partition]int{}
	c.pending = slices.DeleteFunc(c.pending, func(p *position) bool { return !p.pending })
	for _, p := range c.pending {
		if _, ok := order[p.queue.partition]; !ok {
			order[p.queue.partition] = len(order)
		}
	}
	if len(order) > 1 {
		slices.SortStableFunc(c.pending, func(a, b *position) int {
			return cmp.Compare(order[a.queue.partition], order[b.queue.partition])
		})
	}
	c.pollNext()
}

func (c *severalTopics) left() {
	if c.aimed {
		delete(c.dispatcher.aimed, c)
	}
	c.aimed, c.sorts = false, false
}

// isDue, at, skipped and newPoll implement poller.
func (c *severalTopics) isDue() bool { return c.isFree() && len(c.pending) > 0 }

func (c *severalTopics) at() *partition { return c.pending[0].queue.partition }

func (c *severalTopics) skipped() { c.queued = false }

// newPoll claims the caller for a poll of its next topics that are in one partition and taken in the same way.
func (c *severalTopics) newPoll() *poll {
	c.queued, c.claimed = false, true
	first := c.pending[0]
	s := first.queue.partition
	t := &poll{partition: s, store: s.store, Kind: *c.kind(first.topic), several: c, claims: []claim{{&c.caller, c.N}}}
	t.N = c.N
	for _, p := range c.pending {
		if p.queue.partition != s || *c.kind(p.topic) != t.Kind || len(t.queues) == maxQueues {
			break
		}
		p.queue.on(sentAmong, 0)
		t.queues = append(t.queues, polledQueue{p.queue, p.queue.wakes})
		t.Topics, t.Limits = append(t.Topics, p.queue.topic), append(t.Limits, min(c.limit(p.topic), store.MaxPop))
	}
	c.dispatcher.turn++
	return t
}

// foundNone records that the polled queues have no jobs.
func (c *severalTopics) foundNone(queues int) {
	if len(c.pending) == 0 {
		return
	}
	for _, p := range c.pending[:queues] {
		p.answered(nil)
	}
	c.pending = c.pending[queues:]
}

// expect adds the topics to the stock before the caller's probes begin.
func (d *Dispatcher) expect(c *severalTopics) {
	d.stock.add(c.Topics, len(d.partitions))
	if c.Waits { // a caller that always finds jobs never waits, but must be woken too
		for _, n := range d.nodes {
			n.listener.start()
		}
	}
}

// aim makes the caller poll one partition that probably has jobs, and join the queues of this one only. It reports whether there is
// such a partition. While more jobs remain, the caller does not register: it will be back, and a registration costs two commands.
func (d *Dispatcher) aim(c *severalTopics) bool {
	c.comesBack = false
	if d.stock == nil || d.isAnyAway() {
		return false
	}
	found := d.stock.target(&c.Request, d.partitions, d.turn)
	if c.comesBack = found.leaves; found.topics == nil {
		return false
	}
	d.aimed[c] = true
	if c.Waits { // keeps the listeners running
		for _, n := range d.nodes {
			n.listener.left = time.Time{}
		}
	}
	c.aimed, c.sorts = true, true
	c.positions = make([]position, 0, len(found.topics))
	for _, i := range found.topics {
		found.from.queue(c.Topics[i]).push(&c.caller, i)
	}
	for i := range c.positions {
		c.positions[i].pending = true
		c.pending = append(c.pending, &c.positions[i])
	}
	return true
}

// missed sends a caller that got nothing to the next partition that probably has jobs. After an error, or without such a partition,
// the caller joins all queues.
func (d *Dispatcher) missed(c *severalTopics, err error) {
	c.leaveQueues()
	c.comesBack = false
	if err != nil || !d.aim(c) {
		d.joinAll(&c.caller)
	}
	if len(c.pending) > 0 {
		c.poll()
		return
	}
	c.recovered()
	c.wait(store.ErrEmpty)
}
