package store

import (
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

var popScript = newScript("pop")

// MaxPop is the maximum number of jobs that one Pop takes, to bound its time in Redis.
const MaxPop = 250

// Popped contains the jobs that a Pop has taken, or a Reserve has leased.
type Popped struct {
	Jobs       []Job
	Leases     []Lease    // of the Jobs, if these are reserved
	Stale      []string   // IDs met in the queues whose jobs are gone
	Deferred   []Deferred // jobs whose attempts are used up, and that can't become dead letters
	Remaining  []int      // entries left in each topic's queue if it had enough jobs; -1 if unknown
	Registered bool       // the waiter is registered wherever it should be
	// Throttled has, for each topic at its limit, the time until the next poll; Woken: the registered waiter is woken then. 0 for the
	// others; nil if no topic is at its limit.
	Throttled []time.Duration
	// More reports that the script stopped early: there may be more jobs than it returned.
	More bool
}

// Woken means that a waiter is woken at an unknown time.
const Woken time.Duration = -1

// Deferred is a job that is retried some seconds later, and the reason.
type Deferred struct {
	Topic, ID string
	Why       error
}

// Wanted selects what a Pop or a Reserve takes: up to N of the next jobs, those of the first topic first, and at most Limits[i] of Topics[i].
// N is at most MaxPop.
type Wanted struct {
	Topics []string
	Limits []int // nil is N of each
	N      int
	Registration
}

// Registration registers a waiter that is woken once, when a topic that had fewer jobs than wanted has a job. The zero value registers
// none.
type Registration struct {
	Waiter string        // Keys.Wake names its channel
	Since  time.Duration // how long it has waited; the longest waiting one is woken first
	Always bool          // also at topics that had just as many jobs as wanted
}

// Pop takes jobs: about 1 MiB, or one job if that is larger. After an error of Redis nothing was taken; after a connection error up to
// MaxPop jobs may be lost.
func (s *Store) Pop(w Wanted) *Call[Popped] {
	return newCall(s, popScript, w.args(s), func(reply any) (Popped, error) { return poppedOf(reply, w.Topics, false) })
}

// args returns the arguments of pop.lua or, with further ones, of reserve.lua.
func (w *Wanted) args(s *Store, further ...any) []any {
	n := min(w.N, MaxPop)
	args := make([]any, 0, 7+len(further)+3*len(w.Topics))
	args = append(args, nil, 1+len(w.Topics), s.jobPool)
	for _, topic := range w.Topics {
		args = append(args, s.keys.ReadyQueue(topic))
	}
	args = append(args, n, w.Waiter, w.Since.Microseconds(), w.Always)
	args = append(args, further...)
	for i := range w.Topics {
		limit := n
		if w.Limits != nil {
			limit = w.Limits[i]
		}
		args = append(args, limit)
	}
	for _, topic := range w.Topics {
		args = append(args, topic)
	}
	return args
}

// poppedOf reads the reply of pop.lua, or of reserve.lua, which has leases.
func poppedOf(reply any, topics []string, leased bool) (Popped, error) {
	popped := Popped{Remaining: make([]int, len(topics))}
	list, _ := reply.([]any)
	queues, err := redis.Scan(list, &popped.More, &popped.Stale, &popped.Registered)
	if err != nil {
		return Popped{}, err
	}
	if leased && len(queues) > 0 {
		popped.Deferred, queues = deferredOf(queues[0]), queues[1:]
	}
	for len(queues) >= 2 {
		place, _ := queues[0].(int64)
		if held, ok := queues[1].(int64); ok && place < 0 && int(-place) <= len(topics) {
			popped.throttle(int(-place)-1, held, len(topics))
			queues = queues[2:]
			continue
		}
		if len(queues) < 3 {
			return Popped{}, errUnreadable
		}
		jobs, ok := queues[1].([]any)
		if !ok || len(jobs)%2 != 0 || place < 1 || int(place) > len(topics) {
			return Popped{}, errUnreadable
		}
		left, _ := queues[2].(int64)
		popped.Remaining[place-1] = int(left)
		queues = queues[3:]
		if leased {
			leases, ok := leasesOf(queues, len(jobs)/2)
			if !ok {
				return Popped{}, errUnreadable
			}
			popped.Leases = append(popped.Leases, leases...)
			queues = queues[1:]
		}
		popped.Jobs = slices.Grow(popped.Jobs, len(jobs)/2)
		for ; len(jobs) > 0; jobs = jobs[2:] {
			id, _ := jobs[0].([]byte)
			body, is := jobs[1].([]byte)
			job := Job{ID: string(id), Topic: topics[place-1], Body: string(body)}
			if !is {
				job.Body, job.Headers = bodyAndHeaders(jobs[1])
			}
			popped.Jobs = append(popped.Jobs, job)
		}
	}
	return popped, nil
}

// bodyAndHeaders reads the body of a job with headers.
func bodyAndHeaders(reply any) (body string, headers map[string]string) {
	if both, _ := redis.Strings(reply, nil); len(both) == 2 {
		return both[0], HeadersOf(both[1])
	}
	return "", nil
}

// throttle stores the time (ms) until the next poll of the topic at that position.
func (p *Popped) throttle(place int, ms int64, topics int) {
	if p.Throttled == nil {
		p.Throttled = make([]time.Duration, topics)
	}
	if p.Throttled[place] = time.Duration(ms) * time.Millisecond; ms < 0 {
		p.Throttled[place] = Woken
	}
}

// deferredOf reads the deferred jobs in reserve.lua's reply.
func deferredOf(reply any) (list []Deferred) {
	texts, _ := redis.Strings(reply, nil)
	for ; len(texts) >= 3; texts = texts[3:] {
		list = append(list, Deferred{texts[0], texts[1], redis.Error(texts[2])})
	}
	return list
}
