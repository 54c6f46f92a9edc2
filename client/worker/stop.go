package worker

import (
	"context"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/duration"
)

func (r *run) stop() {
	ended := make(chan struct{})
	go func() {
		r.underWay.Wait()
		close(ended)
	}()
	endWithin := func(limit time.Duration) bool {
		select {
		case <-ended:
			return true
		case <-time.After(limit):
			return false
		}
	}
	if endWithin(r.options.Grace) {
		return
	}
	r.interrupt(errStopping)
	if endWithin(interruptWait) {
		return
	}
	for _, t := range r.unsettled() {
		go t.leave()
	}
	if endWithin(releaseWait) {
		return
	}
	r.stopReporting()
	endWithin(interruptWait)
}

// unsettled returns the tasks whose handlers still run, and claims them: their results don't count any more.
func (r *run) unsettled() (list []*task) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for t := range r.tasks {
		if !t.settling {
			t.settling = true
			list = append(list, t)
		}
	}
	return list
}

// started records that the task's handler starts. The caller holds run.mu.
func (t *task) started() {
	t.runs, t.began = true, time.Now()
	t.longAt = t.began.Add(t.lease)
	t.attendAt(t.longAt)
	switch timeout := t.served.options.Timeout; {
	case t.lost:
		t.endsIn(0)
	case timeout > 0:
		t.endsIn(timeout)
	}
}

// endsIn records that the handler's context ends after this time. The caller holds run.mu.
func (t *task) endsIn(d time.Duration) {
	after := t.options.StuckAfter
	if at := time.Now().Add(d + after); after >= 0 && (t.giveUpAt.IsZero() || at.Before(t.giveUpAt)) {
		t.giveUpAt = at
		t.attendAt(at)
	}
}

// giveUp settles the job although its handler still runs, as one that has failed, and frees the handler's slot. No more handlers are
// given up at a time than there are slots: after that they keep their slots, and their topics take no more jobs until one returns.
// The caller holds run.mu.
func (t *task) giveUp() {
	t.settling, t.givenUp = true, true
	if t.slotFreed = t.stuck < t.options.Concurrency; t.slotFreed {
		t.stuck++
		t.free(t)
	} else {
		t.served.stuck = true
	}
	go t.settleStuck()
}

func (t *task) settleStuck() {
	defer t.finish(t)
	after := t.options.StuckAfter
	t.log().Error("handler does not return, though its context has ended; it is given up", "after", duration.Format(after))
	if !t.slotFreed {
		t.log().Error("as many handlers have been given up as run at a time; the topic takes no more jobs until one of its handlers returns")
	}
	t.tell("Stuck", t.options.Hooks.Stuck)
	why := context.Cause(t.ctx)
	if why == client.ErrLeaseLost {
		t.settled(false)
		return
	}
	timeout := t.served.options.Timeout
	err := fmt.Errorf("the handler has not returned within %v after its context ended: %w", duration.Format(after), timeoutError(timeout))
	t.failed(t.reporting, err, timeout+after)
}
