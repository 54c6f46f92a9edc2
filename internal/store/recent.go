package store

import (
	"sync"
	"time"
)

// recentTopics are recently pushed topics, so that not every push has to register its topic in Redis, for Stats and for the sweep. A server
// registers the topics of the jobs it moves, for Stats.
type recentTopics struct {
	mu sync.RWMutex
	// covered is the latest due time by our clock, per topic, that needs no registration.
	covered map[string]time.Time
	since   time.Time
	now     func() time.Time // time.Now, except in tests
}

const (
	// knownFor is the time for which the list is valid: Redis may have been emptied since. At this interval the cost of registering is
	// not measurable.
	knownFor = 10 * time.Second
	// maxKnown bounds the list.
	maxKnown = 10000
	// soon is the longest delay of a job whose topic needs no entry in Keys.TopicsDue.
	soon = 30 * time.Minute
)

func newRecentTopics() *recentTopics { return &recentTopics{now: time.Now} }

// cover reports whether Redis knows the topics of all of the jobs, for as long as the jobs wait.
func (k *recentTopics) cover(jobs []Delayed) bool {
	now := k.now()
	k.mu.RLock()
	defer k.mu.RUnlock()
	if now.Sub(k.since) >= knownFor {
		return false
	}
	for i, job := range jobs {
		if i > 0 && job.Topic == jobs[i-1].Topic && job.Due == jobs[i-1].Due {
			continue
		}
		if covered, known := k.covered[job.Topic]; !known || job.Due.by(now).After(covered) {
			return false
		}
	}
	return true
}

// remember adds the topics of the stored jobs.
func (k *recentTopics) remember(jobs []Delayed, errs []error) {
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if now.Sub(k.since) >= knownFor || len(k.covered) >= maxKnown {
		k.covered, k.since = map[string]time.Time{}, now
	}
	for i, job := range jobs {
		if errs[i] != nil {
			continue
		}
		until := now
		if due := job.Due.by(now); due.After(now) {
			until = due
		}
		if until = until.Add(soon); until.After(k.covered[job.Topic]) {
			k.covered[job.Topic] = until
		}
	}
}

// by returns when the job is due, by our clock.
func (d Due) by(now time.Time) time.Time {
	if d.At.IsZero() {
		return now.Add(d.After)
	}
	return d.At
}
