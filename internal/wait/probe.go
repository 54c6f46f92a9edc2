package wait

import (
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// probe checks queues of a partition for callers that need to know which of them have jobs.
type probe struct {
	partition *partition
	queues    []*waitQueue
	pending   map[*waitQueue][]*position
	check     *check // nil if no caller needs it any more
	sent      *store.Looking
}

// probe checks all pending queues of the caller. Probes of one partition are shared between callers.
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
}

// isProbing reports whether the caller itself is about to find out where there are jobs.
func (c *caller) isProbing() bool { return c.comesBack || c.probes > 0 && c.sorts }

func (s *probe) add(p *position) {
	if s.pending[p.queue] == nil {
		s.queues = append(s.queues, p.queue)
	}
	s.pending[p.queue] = append(s.pending[p.queue], p)
}

// begin makes the check once there is a connection for it. If a caller waits, the check registers us for empty queues.
func (s *probe) begin() {
	s.partition.probe = nil
	var queues []*waitQueue
	var since []time.Duration
	for _, q := range s.queues {
		waited, isPending := time.Duration(-1), false
		for _, p := range s.pending[q] {
			isPending = isPending || p.pending
			if p.pending && p.caller.Waits && !p.caller.comesBack {
				waited = max(waited, time.Since(p.caller.joined))
			}
		}
		if isPending {
			queues, since = append(queues, q), append(since, waited)
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

// done takes in what was found and tells the callers.
func (s *probe) done(found store.Looked, err error) {
	if s.check != nil {
		s.partition.setAway(err != nil)
		s.tell(found, err)
	}
	for _, positions := range s.pending {
		for _, p := range positions {
			c := p.caller
			if c.probes--; c.probes <= 0 && len(c.pending) > 0 {
				c.topics.probed()
			}
		}
	}
	s.partition.dispatcher.unblock(s.partition.node)
}

func (s *probe) tell(found store.Looked, err error) {
	if err == nil {
		s.partition.listener.learn([]*check{s.check}, []store.Looked{found})
	}
	for i, q := range s.check.queues {
		for _, p := range s.pending[q] {
			switch {
			case err != nil || found.Lengths[i] == 0:
				p.answered(err)
			case p.pending && !p.caller.sorts:
				q.ask(p)
			}
		}
	}
}
