package wait

import (
	"cmp"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// probe checks at queues of a partition for callers who want to know which of them have jobs.
type probe struct {
	partition *partition
	queues    []*waitQueue
	pending   map[*waitQueue][]*position
	check     *check // nil if nobody asks any more
	sent      *store.Looking
}

// probe has all queues looked at that the caller is to ask, those of each partition together with what others ask it.
func (c *caller) probe() {
	for _, p := range c.pending {
		s := p.queue.partition
		if s.probe == nil {
			s.probe = &probe{partition: s, pending: map[*waitQueue][]*position{}}
			s.probes = append(s.probes, s.probe)
		}
		s.probe.add(p)
	}
	c.probes = len(c.pending)
	if t := c.dispatcher(); t.stock != nil && c.pollsAlone() {
		t.stock.add(c.Topics, len(t.partitions))
		if c.Waits { // a caller that finds jobs each time never comes to wait, but has to be woken, too
			for _, n := range t.nodes {
				n.listener.start()
			}
		}
	}
}

// isProbing reports whether the caller is about to learn by itself where there are jobs.
func (c *caller) isProbing() bool { return c.comesBack || c.probes > 0 && c.pollsAlone() }

func (s *probe) add(p *position) {
	if s.pending[p.queue] == nil {
		s.queues = append(s.queues, p.queue)
	}
	s.pending[p.queue] = append(s.pending[p.queue], p)
}

// groupByPartition orders what a probe has found, so that one poll asks a partition for all its topics. The partition with the earliest topic comes first.
func (c *caller) groupByPartition() {
	order := map[*partition]int{}
	c.pending = slices.DeleteFunc(c.pending, func(p *position) bool { return !p.asks })
	for _, p := range c.pending {
		if _, ok := order[p.queue.partition]; !ok {
			order[p.queue.partition] = len(order)
		}
	}
	if len(order) > 1 {
		slices.SortStableFunc(c.pending, func(a, b *position) int { return cmp.Compare(order[a.queue.partition], order[b.queue.partition]) })
	}
}

// begin makes the check, once there is a connection for it. Who waits is entered where it finds no job.
func (s *probe) begin() {
	s.partition.probe = nil
	var queues []*waitQueue
	var since []time.Duration
	for _, l := range s.queues {
		waited, asks := time.Duration(-1), false
		for _, p := range s.pending[l] {
			asks = asks || p.asks
			if p.asks && p.caller.Waits && !p.caller.comesBack {
				waited = max(waited, time.Since(p.caller.joined))
			}
		}
		if asks {
			queues, since = append(queues, l), append(since, waited)
		}
	}
	if len(queues) > 0 {
		s.check = s.partition.listener.newCheck(queues)
		s.check.Since = since
	}
}

// send sends the check.
func (s *probe) send(p *store.Pipeline) {
	if s.check != nil {
		s.sent = s.check.Send(p)
	}
}

// done enters what was found, and tells those who asked.
func (s *probe) done(found store.Looked, err error) {
	if s.check != nil {
		s.partition.setAway(err != nil)
		s.tell(found, err)
	}
	for _, positions := range s.pending {
		for _, p := range positions {
			c := p.caller
			if c.probes--; c.probes > 0 || len(c.pending) == 0 {
				continue
			}
			if t := s.partition.dispatcher; t.stock != nil && c.pollsAlone() && c.pollErr == nil {
				t.stock.probed(c.Topics)
			}
			c.groupByPartition()
			c.pollNext()
		}
	}
	s.partition.dispatcher.unblock(s.partition.node)
}

func (s *probe) tell(found store.Looked, err error) {
	if err == nil {
		s.partition.listener.learn([]*check{s.check}, []store.Looked{found})
	}
	for i, l := range s.check.queues {
		for _, p := range s.pending[l] {
			switch {
			case err != nil || found.Lengths[i] == 0:
				p.found(err)
			case p.asks && !p.caller.pollsAlone():
				p.poll()
			}
		}
	}
}
