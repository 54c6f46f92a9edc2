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
