package worker

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mix-basic/delayer/client"
)

// plan says what can be fetched now; Max is 0 if nothing can. wait is after how long more
// can be, without a task's end; 0 if that is not so.
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
		most := min(s.options.Concurrency-s.held, wanted)
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

// inOrder are the topics in the order in which they are served this time: by priority, and
// at random by their weights among those of one.
func (r *run) inOrder() []*served {
	if len(r.served) == 1 {
		return r.served
	}
	// Who draws the smallest of the numbers -ln(random)/weight is the first with a
	// probability in proportion to its weight, and so on with those that are left (Efraimidis and Spirakis, 2006).
	order := slices.Clone(r.served)
	for _, s := range order {
		s.draw = -math.Log(1-rand.Float64()) / float64(s.options.Weight)
	}
	slices.SortFunc(order, func(a, b *served) int {
		return cmp.Or(cmp.Compare(b.options.Priority, a.options.Priority), cmp.Compare(a.draw, b.draw))
	})
	return order
}

// tokens are a token bucket: a job takes one, and they come back at a steady rate.
type tokens struct {
	rate, most, left float64 // a second; at most; now
	at               time.Time
}

// burstTime is for how long a topic that had nothing to do may catch up on its rate.
const burstTime = 50 * time.Millisecond

// longestWait is after how long it is seen at the latest whether there is a token.
const longestWait = time.Hour

func newTokens(rate float64) tokens {
	most := max(rate*burstTime.Seconds(), 1)
	return tokens{rate: rate, most: most, left: most, at: time.Now()}
}

// allowed is how many jobs may be begun now, and, if that is none, after how long one may.
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
