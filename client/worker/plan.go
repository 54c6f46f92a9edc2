package worker

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mix-basic/delayer/client"
)

// plan returns what to fetch now; Max is 0 if nothing can be fetched. wait is when more can be fetched even
// if no task ends; 0 if that depends on a task.
func (r *run) plan() (o client.FetchOptions, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	r.pace.observe(now)
	wanted := r.wanted()
	if wanted == 0 {
		return o, 0
	}
	for _, s := range r.inOrder() {
		most := min(s.options.Concurrency-s.active, wanted)
		allowed, next := s.bucket.allowed(now)
		if s.stuck {
			continue
		}
		if s.isBroken() {
			most, allowed, next = wanted, 0, max(s.brokenUntil.Sub(now), time.Millisecond)
		}
		if most > 0 && next > 0 && (wait == 0 || next < wait) {
			wait = next
		}
		if most = min(most, allowed); most > 0 {
			o.Topics = append(o.Topics, s.fetchTopic(most))
			o.Max = min(o.Max+most, wanted)
		}
	}
	return o, wait
}

// inOrder returns the topics in the order in which to serve them this time: by priority, and at random by
// weight within one priority.
func (r *run) inOrder() []*served {
	if len(r.served) == 1 {
		return r.served
	}
	// Sorting by -ln(random)/weight puts each topic first with a probability proportional to its weight, and
	// so on for the rest (Efraimidis and Spirakis, 2006).
	order := slices.Clone(r.served)
	for _, s := range order {
		s.draw = -math.Log(1-rand.Float64()) / float64(s.options.Weight)
	}
	slices.SortFunc(order, func(a, b *served) int {
		return cmp.Or(cmp.Compare(b.options.Priority, a.options.Priority), cmp.Compare(a.draw, b.draw))
	})
	return order
}

// tokens is a token bucket: starting a job takes a token, and tokens return at a steady rate.
type tokens struct {
	rate, most, left float64 // per second; maximum; now
	at               time.Time
}

// burstTime is how much of its rate an idle topic may catch up on.
const burstTime = 50 * time.Millisecond

// longestWait is the maximum time before the tokens are checked again.
const longestWait = time.Hour

func newTokens(rate float64) tokens {
	most := max(rate*burstTime.Seconds(), 1)
	return tokens{rate: rate, most: most, left: most, at: time.Now()}
}

// allowed returns how many jobs may start now, and if none, when the next may.
func (t *tokens) allowed(now time.Time) (n int, next time.Duration) {
	if t.rate == 0 {
		return math.MaxInt32, 0
	}
	t.left = min(t.left+now.Sub(t.at).Seconds()*t.rate, t.most)
	t.at = now
	if t.left >= 1 {
		return int(min(t.left, math.MaxInt32)), 0
	}
	next = time.Duration(min((1-t.left)/t.rate, longestWait.Seconds()) * float64(time.Second))
	return 0, max(next, time.Millisecond)
}

func (t *tokens) take() { t.left-- }

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
	t.bufferedUntil = time.Now().Add(maxBuffered)
	r.buffered = append(r.buffered, t)
	r.attendAt(t.bufferedUntil)
}

func (r *run) unbuffer() *task {
	t := r.buffered[0]
	r.buffered[0] = nil
	r.buffered = r.buffered[1:]
	return t
}

// drop releases a job that is not started. The caller holds run.mu.
func (t *task) drop() {
	t.served.active--
	t.settling = true
	go t.releaseUnstarted()
}
