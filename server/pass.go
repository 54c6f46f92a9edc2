package server

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

const (
	// batchWait bounds one batch, for pools without timeouts.
	batchWait = 10 * time.Second
	// fewPerTopic is how many jobs per topic, on average, pay for the fixed cost of one script call per topic.
	fewPerTopic = 16
	// maxPages is how many reads of due jobs may be merged to get as many.
	maxPages = 16
)

// passOnce makes a whole pass. next is when the next job falls due, by our clock; zero if none is known.
func (m *mover) passOnce(ctx, work context.Context) (next time.Time, err error) {
	p := m.newPass(work)
	for p.step(ctx) {
	}
	return p.next, p.err
}

// pass moves all due jobs of a store, step by step. Each step is atomic, so it can stop after any.
//
// It reads a batch of due jobs; due.lua moves a small batch itself. Otherwise one pipeline moves the batch, with one script
// call per topic, and reads the next batch, until nothing more is due. Jobs that cannot be moved are due again later: see
// stuckJobs. Schedules that are due are fired a few at a time, between the moves.
//
// What was due when the pass began is moved oldest first. Jobs that fall due meanwhile do not wait for the end of a backlog:
// see store.Query.
//
// A pass ends early, without an error, when the steps' ctx is done, and on standby when another server moves the same jobs;
// work is the context of its calls to Redis. It starts again once if the connection was closed, since a connection that broke
// while idle is no outage.
type pass struct {
	mover       *mover
	work        context.Context
	started     time.Time
	begun       bool          // the first batch is known
	again       bool          // it has started again
	found       store.DueJobs // to be moved next
	schedules   *dueSchedules // to be fired next, or nil
	skipped     bool          // the last read skipped as many entries as there were schedules, which may have been others
	err         error         // what stopped it
	since       time.Time     // its start by Redis's clock
	next        time.Time     // when the next job falls due, by our clock; zero if none is known
	ready       []store.Batch // moved but not logged yet
	cantPublish error         // why a waiter could not be woken
	woken       bool          // a waiter was woken
	moved       bool          // a job was moved
	overtaken   bool          // another server moved jobs first
}

func (m *mover) newPass(work context.Context) *pass {
	return &pass{mover: m, work: work, started: time.Now()}
}

// step moves one batch, and reports whether there is more to do.
func (p *pass) step(ctx context.Context) bool {
	more, err := p.goOn(ctx)
	if more && err == nil {
		return true
	}
	if err != nil && !p.again && isCut(err) {
		p.again, p.begun = true, false
		return true
	}
	p.end(ctx, err)
	return false
}

func (p *pass) goOn(ctx context.Context) (more bool, err error) {
	if !p.begun {
		if ctx.Err() != nil {
			return false, nil
		}
		p.found, err = p.find(store.Counts{})
		p.schedules = nil
		if p.since, p.begun = p.found.Now, true; err != nil {
			return false, err
		}
	}
	if p.mover.server.test.beforeMove != nil {
		p.mover.server.test.beforeMove()
	}
	if more = p.found.More; more {
		if p.found, err = p.gather(p.found); err != nil {
			return false, err
		}
	}
	if len(p.found.Batches) > 0 {
		p.takeSchedules()
	}
	if p.schedules != nil {
		if err = p.fire(); err != nil {
			return false, err
		}
	} else if p.found.Count.Total() == 0 {
		return false, nil
	}
	more = more || p.schedules != nil || p.skipped
	p.found, err = p.move(p.found, more)
	if more && p.overtaken && p.mover.standby.Load() {
		p.nextBy(0) // leaves the backlog to the other server, unless that stops
		return false, err
	}
	return more && ctx.Err() == nil, err
}

func (p *pass) end(ctx context.Context, err error) {
	p.err = err
	p.logReady()
	named := err
	if err != nil || p.mover.failing {
		named = p.mover.named(err)
		p.mover.failing = err != nil
		p.mover.server.heartbeat.failed(p.mover.number, named)
	}
	p.mover.server.passed(time.Since(p.started), named)
	if len(p.mover.stuck.last) > 0 && err == nil && ctx.Err() == nil {
		p.mover.stuck.forget(p.mover.now)
	}
	if p.cantPublish != nil || p.woken {
		p.mover.reportPublish(p.cantPublish)
	}
}

func (p *pass) find(skip store.Counts) (found store.DueJobs, err error) {
	err = p.timely(func(ctx context.Context, calls *store.Pipeline) error {
		sent := time.Now()
		found, err = p.receiveDue(ctx, p.mover.store.Due(p.query(skip)).Send(calls), sent)
		return err
	})
	return found, err
}

// query is for the next batch. In a pass's first call due.lua may move a few jobs itself, if we know Redis's clock.
func (p *pass) query(skip store.Counts) store.Query {
	if p.skipped = p.schedules != nil; p.skipped {
		skip = skip.Plus(p.schedules.count())
	}
	q := store.Query{Limit: p.mover.batch.size(), Since: p.since, Skip: skip}
	if p.since.IsZero() && !p.mover.now.IsZero() && !p.mover.server.test.moveApart {
		q.AtOnce, q.Retry = min(atOnce, q.Limit), p.mover.stuck.retryAt(p.mover.redisTime(), 0)
	}
	return q
}

// move moves the jobs, drops orphans, and reads the next batch if there is more. While Redis works it logs the batch moved
// earlier.
func (p *pass) move(found store.DueJobs, more bool) (next store.DueJobs, err error) {
	stale := false // the next batch was read before all of this one was moved
	err = p.timely(func(ctx context.Context, calls *store.Pipeline) error {
		sent := time.Now()
		moving, dropping := p.sendMoves(calls, found)
		var finding *store.Call[store.DueJobs]
		if more {
			finding = p.mover.store.Due(p.query(store.Counts{})).Send(calls)
		}
		calls.Flush()
		p.logReady()
		calls.ReceiveAll(ctx)

		err := p.receiveMoved(ctx, moving, found.Now, sent)
		err = cmp.Or(err, p.receiveDropped(ctx, dropping, found.Now))
		if err == nil && more {
			next, err = p.receiveDue(ctx, finding, sent)
			stale = !calls.InOrder()
		}
		return err
	})
	if stale && err == nil {
		return p.find(store.Counts{})
	}
	return next, err
}

// sendMoves sends a call for each batch, and one for the orphans if there are any.
func (p *pass) sendMoves(calls *store.Pipeline, found store.DueJobs) (moving []*store.Call[store.Moved], dropping *store.Call[store.Dropped]) {
	for _, b := range found.Batches {
		for first := 0; first < len(b.IDs); first += found.Limit {
			part := b // a gathered batch may exceed the limit
			part.IDs = b.IDs[first:min(first+found.Limit, len(b.IDs))]
			move := p.mover.store.Move(part, found.Now, p.mover.redisTime(), p.mover.stuck.retryAt(found.Now, first))
			if first == 0 && len(part.IDs) < len(b.IDs) {
				move.InText()
			}
			moving = append(moving, move.Send(calls))
		}
	}
	if len(found.Orphans) > 0 {
		dropping = p.mover.store.Drop(found.Orphans, found.Now, p.mover.stuck.retryAt(found.Now, 0)).Send(calls)
	}
	return moving, dropping
}

func (p *pass) receiveMoved(ctx context.Context, moving []*store.Call[store.Moved], found, sent time.Time) error {
	var failed error
	jobs, took := 0, time.Duration(0)
	for _, move := range moving {
		moved, err := move.Wait(ctx)
		failed = cmp.Or(failed, err)
		if n := len(moved.IDs); n >= store.MinTimed {
			jobs += n
			took += moved.Took
		}
		p.mover.server.called("move", moved.Took)
		p.recordMoved(moved, found)
	}
	p.mover.batch.observe(jobs, took, time.Since(sent))
	return failed
}

func (p *pass) recordMoved(moved store.Moved, found time.Time) {
	p.overtaken = p.overtaken || moved.Skipped > 0
	switch {
	case moved.PutBack > 0:
		p.mover.stuck.putBack(topicTrouble(moved.Topic), moved.PutBack, moved.Refused, found)
		p.nextBy(p.mover.stuck.every)
	case len(moved.IDs) > 0:
		p.moved = true
		if len(p.mover.stuck.last) > 0 {
			p.mover.stuck.over(topicTrouble(moved.Topic))
		}
		p.mover.server.moved(moved)
		p.ready = append(p.ready, moved.Batch)
		p.cantPublish, p.woken = cmp.Or(p.cantPublish, moved.CantPublish), p.woken || moved.Woken
	case moved.Skipped > 0: // another server may have put them back into the pool
		p.mover.stuck.met(topicTrouble(moved.Topic), found)
	}
}

func (p *pass) receiveDropped(ctx context.Context, dropping *store.Call[store.Dropped], found time.Time) error {
	dropped, err := dropping.Wait(ctx)
	if n := len(dropped.PutBack); n > 0 {
		p.mover.stuck.putBack(bucketTrouble, n, dropped.Refused, found)
		p.nextBy(p.mover.stuck.every)
	}
	if n := len(dropped.IDs); n > 0 {
		p.mover.server.dropped(n)
		logJobs(p.mover.log, slog.LevelError, "Job bucket has expired or is incomplete, job dropped", "", dropped.IDs)
	}
	return err
}

func (p *pass) receiveDue(ctx context.Context, finding *store.Call[store.DueJobs], sent time.Time) (store.DueJobs, error) {
	found, err := finding.Wait(ctx)
	if err != nil {
		return found, err
	}
	p.mover.now, p.mover.asked = found.Now, sent
	p.mover.server.called("due", found.Took)
	for _, moved := range found.Moved {
		p.recordMoved(moved, found.Now)
	}
	p.nextBy(found.Next)
	p.mover.batch.observe(found.Count.Total(), found.Took, time.Since(sent))
	return found, nil
}

func (p *pass) nextBy(in time.Duration) {
	if at := time.Now().Add(in); in >= 0 && (p.next.IsZero() || at.Before(p.next)) {
		p.next = at
	}
}

// timely makes calls on one connection. If they time out, batches get smaller.
func (p *pass) timely(do func(ctx context.Context, calls *store.Pipeline) error) error {
	err := p.mover.pipelined(p.work, do)
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded) {
		p.mover.batch.halve()
	}
	return err
}

// pipelined makes calls on one connection.
func (m *mover) pipelined(work context.Context, do func(ctx context.Context, calls *store.Pipeline) error) error {
	ctx, cancel := context.WithTimeout(work, batchWait)
	defer cancel()
	calls, err := m.store.Pipeline(ctx)
	if err == nil {
		defer calls.Close()
		if err = do(ctx, calls); calls.Replaced {
			m.listenAnew()
		}
	}
	return err
}

// gather reads further pages if one has too few jobs per topic. The pages are read at different times, so a job may be in
// two of them.
func (p *pass) gather(found store.DueJobs) (store.DueJobs, error) {
	page := found
	for n := 1; n < maxPages && page.More && page.Count.Total() == page.Limit && found.Count.Total() < fewPerTopic*len(found.Batches); n++ {
		var err error
		if page, err = p.find(found.Count); err != nil {
			return found, err
		}
		found = merge(found, page)
	}
	return found, nil
}

func merge(first, second store.DueJobs) store.DueJobs {
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
	first.Count = first.Count.Plus(second.Count)
	return first
}

func (p *pass) logReady() {
	for _, b := range p.ready {
		logJobs(p.mover.log, slog.LevelInfo, "Job is ready", b.Topic, b.IDs)
	}
	p.ready = nil
}
