package worker

import "time"

const (
	// aheadFor is for how long a worker reserves jobs ahead, at the pace at which
	// its handlers return: so it fetches many at a time where they are quick, and no
	// more than it has places for where they are slow.
	aheadFor = 10 * time.Millisecond
	// maxAhead is how many jobs that are at most.
	maxAhead = 250
	// maxBuffered is for how long a job may wait that was reserved ahead. It is given
	// back then, as the handlers have become slow.
	maxBuffered = 100 * time.Millisecond
	// maxFetch is how many jobs one call reserves at most.
	maxFetch = 250
)

// pace is how many handlers return a second.
type pace struct {
	perSecond float64
	handled   int // since
	since     time.Time
}

// observe enters what was handled until now. What is older counts for less.
func (p *pace) observe(now time.Time) {
	const memory = 20 * time.Millisecond
	took := now.Sub(p.since)
	if took < time.Millisecond {
		return
	}
	share := min(float64(took)/float64(memory), 1)
	p.perSecond += share * (float64(p.handled)/took.Seconds() - p.perSecond)
	p.handled, p.since = 0, now
}

// ahead is how many jobs are reserved ahead.
func (p *pace) ahead() int { return min(int(p.perSecond*aheadFor.Seconds()), maxAhead) }

// wanted is how many jobs are to be reserved now; 0 as long as at least half of those are there
// that are reserved ahead. mu must be held.
func (r *run) wanted() int {
	free, ahead := r.options.Concurrency-r.running, r.pace.ahead()
	if free == 0 && len(r.buffered) > ahead/2 {
		return 0
	}
	return max(min(free+ahead-len(r.buffered), maxFetch, r.maxHeld-len(r.tasks)), 0)
}

// buffer keeps a task until there is a place for it. mu must be held.
func (r *run) buffer(t *task) {
	t.since = time.Now()
	r.buffered = append(r.buffered, t)
	if !r.ageing {
		r.ageing = true
		time.AfterFunc(maxBuffered, r.giveBackOld)
	}
}

// unbuffer takes the first task out. mu must be held.
func (r *run) unbuffer() *task {
	t := r.buffered[0]
	r.buffered[0] = nil
	r.buffered = r.buffered[1:]
	return t
}

// giveBackOld gives back what has been in the buffer for too long.
func (r *run) giveBackOld() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.buffered) > 0 {
		if left := maxBuffered - time.Since(r.buffered[0].since); left > 0 {
			time.AfterFunc(left, r.giveBackOld)
			return
		}
		r.giveBackFirst()
	}
	r.ageing = false
}

// giveBackFirst gives back the first task of the buffer. mu must be held.
func (r *run) giveBackFirst() {
	t := r.unbuffer()
	t.served.held--
	t.settling = true
	go t.giveBack()
}
