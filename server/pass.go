package server

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// result of a pass.
type result struct {
	Moved   int           // jobs that are ready now
	Dropped int           // orphans taken out of the pool
	Next    time.Duration // until the next job falls due; -1 if none is known
}

// pass moves all that is due. It returns early, without an error, when ctx is done;
// work is the context of what it asks of Redis.
//
// Jobs that can't be moved (their ready queue is broken) stay in front of the
// pool; the look-ups pass over them, so that no topic waits for another.
//
// What was due when the pass began is moved oldest first. What falls due
// meanwhile does not wait for all of that: see store.Look.
func (s *Server) pass(ctx, work context.Context) (result, error) {
	started := time.Now()
	p := &pass{Server: s, work: work, broken: map[string]error{}, total: result{Next: -1}}
	p.skip.Backlog = s.blocked.skip(started)
	full := p.skip.Backlog == 0
	err := p.run(ctx)
	p.logMoved()
	if full && err == nil && ctx.Err() == nil {
		s.reportTopics(p.broken)
		s.blocked.found(p.skip.Total(), time.Since(started))
	}
	return p.total, err
}

// pass is a pass under way.
type pass struct {
	*Server
	work   context.Context
	since  string           // when the first look-up was, by Redis's clock
	skip   store.Counts     // how many jobs of broken topics stand in front
	broken map[string]error // topics whose jobs can't be moved
	total  result
	unsaid []store.Moved // not yet in the log
}

// run works in rounds: each moves what the one before has looked up, and looks
// up the next batch in the same exchange, until a look-up comes back short.
func (p *pass) run(ctx context.Context) error {
	if ctx.Err() != nil {
		return nil
	}
	limit := p.batch.size()
	look, err := p.lookUp(limit, p.skip)
	for err == nil {
		p.total.Next = look.Next
		if p.since == "" {
			p.since = look.Now
		}
		if p.beforeMove != nil {
			p.beforeMove()
		}
		more := look.Looked.Total() == limit
		if look, more, err = p.gather(look, limit, more); err != nil || look.Looked.Total() == 0 {
			return err
		}
		batches := p.movable(look.Batches, limit)
		limit = p.batch.size()
		look, err = p.exchange(batches, look.Orphans, more, limit)
		if !more || ctx.Err() != nil {
			return err
		}
	}
	return err
}

const (
	// fewPerTopic is how many jobs a topic's script should have at least, on
	// average, to be worth its fixed cost.
	fewPerTopic = 16
	// maxGather is how many look-ups may be put together for that.
	maxGather = 16
)

// gather adds further look-ups to one that has too few jobs of each topic. more
// is whether the last of them was full.
func (p *pass) gather(look store.Lookup, limit int, more bool) (store.Lookup, bool, error) {
	for n := 1; more && n < maxGather && look.Looked.Total() < fewPerTopic*len(look.Batches); n++ {
		page, err := p.lookUp(limit, p.skip.Plus(look.Looked))
		if err != nil {
			return look, more, err
		}
		more = page.Looked.Total() == limit
		look = merge(look, page)
	}
	return look, more, nil
}

// merge puts two look-ups together, of which the second came after the first.
func merge(first, second store.Lookup) store.Lookup {
	type kind struct {
		topic string
		fresh bool
	}
	place := make(map[kind]int, len(first.Batches))
	for i, b := range first.Batches {
		place[kind{b.Topic, b.Fresh}] = i
	}
	for _, b := range second.Batches {
		if i, ok := place[kind{b.Topic, b.Fresh}]; ok {
			first.Batches[i].IDs = append(first.Batches[i].IDs, b.IDs...)
		} else {
			first.Batches = append(first.Batches, b)
		}
	}
	first.Orphans = append(first.Orphans, second.Orphans...)
	first.Looked = first.Looked.Plus(second.Looked)
	first.Next = second.Next
	return first
}

func (p *pass) lookUp(limit int, skip store.Counts) (store.Lookup, error) {
	out, err := p.round(store.Round{Look: &store.Look{Limit: limit, Since: p.since, Skip: skip}})
	return out.Lookup, err
}

// exchange moves the batches, drops the orphans, and, if there is more, looks up
// the next.
func (p *pass) exchange(batches []store.Batch, orphans store.IDs, more bool, limit int) (store.Lookup, error) {
	r := store.Round{Batches: batches, Orphans: orphans}
	if more {
		r.Look = &store.Look{Limit: limit, Since: p.since, Skip: p.skip}
	}
	out, err := p.round(r)
	stuck, failed := p.account(batches, out)
	if err == nil {
		err = failed
	}
	if err == nil && more && stuck > 0 { // the look-up did not know
		return p.lookUp(limit, p.skip)
	}
	return out.Lookup, err
}

// movable are the batches without those of topics known as broken, which are
// passed over from now on, and with those of more than limit jobs cut.
func (p *pass) movable(batches []store.Batch, limit int) []store.Batch {
	movable := make([]store.Batch, 0, len(batches))
	for _, b := range batches {
		if p.broken[b.Topic] != nil {
			p.passOver(b)
			continue
		}
		for ; len(b.IDs) > limit; b.IDs = b.IDs[limit:] {
			movable = append(movable, store.Batch{Topic: b.Topic, IDs: b.IDs[:limit], Fresh: b.Fresh})
		}
		movable = append(movable, b)
	}
	return movable
}

// passOver has the look-ups pass over a batch that stays where it is.
func (p *pass) passOver(b store.Batch) {
	if b.Fresh {
		p.skip.Fresh += len(b.IDs)
	} else {
		p.skip.Backlog += len(b.IDs)
	}
}

// account enters what came of the batches. stuck is how many jobs turned out to
// be of a broken topic.
func (p *pass) account(batches []store.Batch, out store.Outcome) (stuck int, err error) {
	for i, m := range out.Moved {
		switch {
		case m.Err == nil:
			p.total.Moved += len(m.IDs)
		case store.OneQueueOnly(m.Err):
			p.broken[m.Topic] = m.Err
			p.passOver(batches[i])
			stuck += len(batches[i].IDs)
		default:
			err = m.Err
		}
	}
	p.unsaid = out.Moved
	p.total.Dropped += len(out.Dropped)
	if len(out.Dropped) > 0 {
		p.log.Error(idsLine("Job bucket has expired or is incomplete, job dropped, IDs: [", out.Dropped))
	}
	return stuck, err
}

// round has Redis do a round, and writes meanwhile into the log what the last one did.
func (p *pass) round(r store.Round) (store.Outcome, error) {
	ctx, cancel := context.WithTimeout(p.work, batchWait)
	defer cancel()
	sent := time.Now()
	exchange, err := p.store.Begin(ctx, r)
	p.logMoved()
	if err != nil {
		return store.Outcome{}, err
	}
	out, err := exchange.End()
	p.learn(out, time.Since(sent))
	return out, err
}

// learn fits the size of the batches to what the round took.
func (p *pass) learn(out store.Outcome, roundTrip time.Duration) {
	moved, took := 0, time.Duration(0)
	for _, m := range out.Moved {
		moved += len(m.IDs)
		took += m.Took
	}
	p.batch.observe(moved, took, roundTrip)
	p.batch.observe(out.Lookup.Looked.Total(), out.Lookup.Took, roundTrip)
}

func (p *pass) logMoved() {
	for _, m := range p.unsaid {
		if len(m.IDs) > 0 {
			p.log.Info(readyLine(m.Batch))
		}
	}
	p.unsaid = nil
}

// reportTopics tells the log which topics broke and which are well again.
func (s *Server) reportTopics(broken map[string]error) {
	reports := maps.Clone(broken)
	for _, topic := range s.outages.open("topic ") {
		if _, ok := reports[topic]; !ok {
			reports[topic] = nil
		}
	}
	for topic, err := range reports {
		s.outages.report("topic "+topic, "Jobs of a topic can't be moved, Topic: "+topic, err)
	}
}

// readyLine is the original's line for one topic's moved batch.
func readyLine(b store.Batch) string {
	return idsLine("Job is ready, Topic: "+b.Topic+", IDs: [", b.IDs)
}

func idsLine(head string, ids store.IDs) string {
	size := len(head) + 1
	for _, id := range ids {
		size += len(id.([]byte)) + 1
	}
	var line strings.Builder
	line.Grow(size)
	line.WriteString(head)
	for i, id := range ids {
		if i > 0 {
			line.WriteByte(',')
		}
		line.Write(id.([]byte))
	}
	line.WriteByte(']')
	return line.String()
}

// isCut reports whether err is a connection that was closed on us.
func isCut(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
