package worker

import "time"

const (
	// aheadFor is how long a worker reserves jobs ahead, at the rate at which its handlers return: many at a
	// time if they are quick, and no more than it has free slots for if they are slow.
	aheadFor = 10 * time.Millisecond
	// maxAhead is the maximum number of jobs reserved ahead.
	maxAhead = 250
	// maxBuffered is how long a job reserved ahead may wait for a handler. Then it is released, because the
	// handlers have become slow.
	maxBuffered = 100 * time.Millisecond
	// maxFetch is the maximum number of jobs per fetch.
	maxFetch = 250
)

// pace measures how many handlers return per second.
type pace struct {
	perSecond float64
	handled   int // since the last observe
	since     time.Time
}

// observe updates the pace; older values count for less.
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

// ahead returns how many jobs to reserve ahead.
func (p *pace) ahead() int { return min(int(p.perSecond*aheadFor.Seconds()), maxAhead) }

// wanted returns how many jobs to fetch now; 0 while at least half of those reserved ahead are still
// buffered. The caller holds mu.
func (r *run) wanted() int {
	free, ahead := r.options.Concurrency-r.running, r.pace.ahead()
	if free == 0 && len(r.buffered) > ahead/2 {
		return 0
	}
	return max(min(free+ahead-len(r.buffered), maxFetch, r.maxActive-len(r.tasks)), 0)
}

// buffer keeps a task until a slot is free. The caller holds mu.
func (r *run) buffer(t *task) {
	t.since = time.Now()
	r.buffered = append(r.buffered, t)
	if !r.ageing {
		r.ageing = true
		time.AfterFunc(maxBuffered, r.releaseOld)
	}
}

// unbuffer removes the first task. The caller holds mu.
func (r *run) unbuffer() *task {
	t := r.buffered[0]
	r.buffered[0] = nil
	r.buffered = r.buffered[1:]
	return t
}

// releaseOld releases jobs that have been buffered for too long.
func (r *run) releaseOld() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.buffered) > 0 {
		if left := maxBuffered - time.Since(r.buffered[0].since); left > 0 {
			time.AfterFunc(left, r.releaseOld)
			return
		}
		r.releaseFirst()
	}
	r.ageing = false
}

// releaseFirst releases the first buffered job. The caller holds mu.
func (r *run) releaseFirst() {
	t := r.unbuffer()
	t.served.active--
	t.settling = true
	go t.releaseUnstarted()
}
