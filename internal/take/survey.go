package take

import (
	"cmp"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// survey looks at lines of a source for callers who want to know which of them have jobs.
type survey struct {
	source *source
	lines  []*line
	asking map[*line][]*place
	look   *look // nil if nobody asks any more
	sent   *store.Looking
}

// survey has all lines looked at that the caller is to ask, those of each source together with what others ask it.
func (c *caller) survey() {
	for _, p := range c.toAsk {
		s := p.line.source
		if s.survey == nil {
			s.survey = &survey{source: s, asking: map[*line][]*place{}}
			s.surveys = append(s.surveys, s.survey)
		}
		s.survey.add(p)
	}
	c.surveys = len(c.toAsk)
	if t := c.taker(); t.stock != nil && c.asksAlone() {
		t.stock.add(c.Topics, len(t.sources))
		if c.Waits { // a caller that finds jobs each time never comes to wait, but has to be woken, too
			for _, n := range t.nodes {
				n.listener.start()
			}
		}
	}
}

// isProbing reports whether the caller is about to learn by itself where there are jobs.
func (c *caller) isProbing() bool { return c.comesBack || c.surveys > 0 && c.asksAlone() }

func (s *survey) add(p *place) {
	if s.asking[p.line] == nil {
		s.lines = append(s.lines, p.line)
	}
	s.asking[p.line] = append(s.asking[p.line], p)
}

// groupBySource orders what a survey has found, so that one take asks a source for all its topics. The source with the earliest topic comes first.
func (c *caller) groupBySource() {
	order := map[*source]int{}
	c.toAsk = slices.DeleteFunc(c.toAsk, func(p *place) bool { return !p.asks })
	for _, p := range c.toAsk {
		if _, ok := order[p.line.source]; !ok {
			order[p.line.source] = len(order)
		}
	}
	if len(order) > 1 {
		slices.SortStableFunc(c.toAsk, func(a, b *place) int { return cmp.Compare(order[a.line.source], order[b.line.source]) })
	}
}

// begin makes the look, once there is a connection for it. Who waits is entered where it finds no job.
func (s *survey) begin() {
	s.source.survey = nil
	var lines []*line
	var since []time.Duration
	for _, l := range s.lines {
		waited, asks := time.Duration(-1), false
		for _, p := range s.asking[l] {
			asks = asks || p.asks
			if p.asks && p.caller.Waits && !p.caller.comesBack {
				waited = max(waited, time.Since(p.caller.joined))
			}
		}
		if asks {
			lines, since = append(lines, l), append(since, waited)
		}
	}
	if len(lines) > 0 {
		s.look = s.source.listener.newLook(lines)
		s.look.Since = since
	}
}

// send sends the look.
func (s *survey) send(p *store.Pipeline) {
	if s.look != nil {
		s.sent = s.look.Send(p)
	}
}

// done enters what was found, and tells those who asked.
func (s *survey) done(found store.Looked, err error) {
	if s.look != nil {
		s.source.setAway(err != nil)
		s.tell(found, err)
	}
	for _, places := range s.asking {
		for _, p := range places {
			c := p.caller
			if c.surveys--; c.surveys > 0 || len(c.toAsk) == 0 {
				continue
			}
			if t := s.source.taker; t.stock != nil && c.asksAlone() && c.askErr == nil {
				t.stock.probed(c.Topics)
			}
			c.groupBySource()
			c.askNext()
		}
	}
	s.source.taker.unblock(s.source.node)
}

func (s *survey) tell(found store.Looked, err error) {
	if err == nil {
		s.source.listener.learn([]*look{s.look}, []store.Looked{found})
	}
	for i, l := range s.look.lines {
		for _, p := range s.asking[l] {
			switch {
			case err != nil || found.Lengths[i] == 0:
				p.found(err)
			case p.asks && !p.caller.asksAlone():
				p.askLine()
			}
		}
	}
}
