package store

import (
	"sync"
	"time"
)

// knownTopics are the topics that were pushed lately, so that not every push has to
// enter its topic among those that Redis knows (Stats). A server enters what it moves.
type knownTopics struct {
	mu     sync.RWMutex
	topics map[string]bool
	since  time.Time
}

const (
	// knownFor is for how long we rely on what Redis knew.
	knownFor = time.Hour
	// maxKnown bounds what we remember.
	maxKnown = 10000
)

// all reports whether the topics of all of the jobs are known.
func (k *knownTopics) all(jobs []Delayed) bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	if time.Since(k.since) >= knownFor {
		return false
	}
	last := ""
	for _, job := range jobs {
		if job.Topic != last && !k.topics[job.Topic] {
			return false
		}
		last = job.Topic
	}
	return true
}

// enter enters the topics of the jobs that were stored.
func (k *knownTopics) enter(jobs []Delayed, errs []error) {
	if k.all(jobs) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if time.Since(k.since) >= knownFor || len(k.topics) >= maxKnown {
		k.topics, k.since = map[string]bool{}, time.Now()
	}
	for i, job := range jobs {
		if errs[i] == nil {
			k.topics[job.Topic] = true
		}
	}
}
