package client_test

import (
	"cmp"
	"slices"
	"strings"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// taking is a call that takes up to n jobs from the topics.
type taking struct {
	topics []string
	n      int
	// got has the jobs that the call returned. The model uses it only for the order among several partitions.
	got    []string
	isDead func(id string) bool // reports whether Redis has made the job a dead letter

	reserves bool
}

// take takes jobs from the queues, in the topics' order. claim handles each job and reports whether the call took it.
func (m *model) take(t taking, claim func(topic, id string) bool) (ids []string) {
	t.topics = m.delivered(t.topics)
	next := func(queue string) {
		id := m.queues[queue][0]
		m.queues[queue] = m.queues[queue][1:]
		topic, _, _ := strings.Cut(queue, " of ")
		job, exists := m.jobs[id]
		_, waits := m.pool[id]
		switch {
		case !exists || waits: // a stale entry
		case job.topic != topic:
			m.enqueue(job.topic, id)
		case claim(topic, id):
			ids = append(ids, id)
		}
	}
	defer m.followUp() // a take never takes a job that it has made ready itself
	if m.partitions > 1 {
		m.takeThese(t, next)
		if len(ids) > 0 { // a call takes those of one partition
			return ids
		}
	}
	for _, queue := range m.queuesOf(t.topics) {
		for len(m.queues[queue]) > 0 && len(ids) < t.n && t.mayTake(m, queue) {
			next(queue)
		}
	}
	return ids
}

// mayTake reports whether the call may take a job from this queue now.
func (t taking) mayTake(m *model, queue string) bool { return !t.reserves || m.isOpen(queue) }

// delivered returns the topics that are not paused.
func (m *model) delivered(topics []string) []string {
	return slices.DeleteFunc(slices.Clone(topics), func(topic string) bool { return m.held[topic] })
}

// takeThese takes the jobs that the call returned, in their order. Each of them must be the next one in its queue. Jobs
// that were buried instead may come before it, and after the last one. There are no stale entries: only programs that
// know a single partition leave any.
func (m *model) takeThese(t taking, next func(queue string)) {
	buryFirst := func(queue string) {
		for len(m.queues[queue]) > 0 && t.isDead(m.queues[queue][0]) {
			next(queue)
		}
	}
	for _, id := range t.got {
		queue := m.queue(m.jobs[id].topic, id)
		buryFirst(queue)
		if len(m.queues[queue]) > 0 && m.queues[queue][0] == id && t.mayTake(m, queue) {
			next(queue)
		}
	}
	for _, queue := range m.queuesOf(t.topics) {
		buryFirst(queue)
	}
}

func (m *model) pop(t taking) []string {
	return m.take(t, func(_, id string) bool {
		m.end(id)
		return true
	})
}

// reserve records leases without an end: the test reads it from Redis.
func (m *model) reserve(t taking, maxAttempts int) []string {
	t.reserves = true
	return m.take(t, func(topic, id string) bool {
		job := m.jobs[id]
		job.beginAnew()
		if limit := cmp.Or(job.maxAttempts, maxAttempts); limit > 0 && job.attempts >= limit {
			m.bury(id)
			return false
		}
		job.attempts++
		job.leased = true
		m.jobs[id] = job
		m.leases++
		m.pool[id] = modelEntry{lease: m.leases}
		m.counts[topic]++
		m.begin(m.queue(topic, id), id)
		return true
	})
}

// bury makes a dead letter of a job that is in no queue. The test reads the time from Redis.
func (m *model) bury(id string) {
	letter := m.jobs[id]
	letter.follower = nil
	m.letters[id], m.died[id] = letter, 0
	m.end(id)
}

// end deletes a job. The next followUp stores its follower.
func (m *model) end(id string) {
	if job := m.jobs[id]; job.follower != nil && !job.anew {
		m.followers = append(m.followers, modelFollowing{id, *job.follower})
	}
	delete(m.jobs, id)
}

// modelFollowing is a follower with the ID of its job, which has ended.
type modelFollowing struct {
	id string
	modelFollower
}

func (m *model) followUp() {
	for _, f := range m.followers {
		m.jobs[f.id] = f.modelJob
		m.schedule(f.id, f.due)
	}
	m.followers = nil
}

// isHeld reports whether the lease is valid.
func (m *model) isHeld(id string, lease int) bool {
	entry, reserved := m.pool[id]
	return reserved && entry.lease == lease && !m.isDue(entry)
}

// settle ends a valid lease and then calls then.
func (m *model) settle(topic, id string, lease int, then func() error) error {
	if _, exists := m.jobs[id]; !exists || !m.isHeld(id, lease) {
		return client.ErrLeaseLost
	}
	delete(m.pool, id)
	m.counts[topic]--
	m.free(m.queue(topic, id), id)
	defer m.followUp()
	return then()
}

func (m *model) ack(topic, id string, lease int) error {
	return m.settle(topic, id, lease, func() error { m.end(id); return nil })
}

// retry returns a job, to the pool if later is set. The test reads the due time from Redis.
func (m *model) retry(topic, id string, lease, maxAttempts int, later bool) error {
	return m.settle(topic, id, lease, func() error {
		job := m.jobs[id]
		if limit := cmp.Or(job.maxAttempts, maxAttempts); limit > 0 && job.attempts >= limit {
			m.bury(id)
			return client.ErrExhausted
		}
		if later {
			m.pool[id] = modelEntry{}
		} else {
			m.enqueue(topic, id)
		}
		return nil
	})
}

func (m *model) release(topic, id string, lease int, later bool) error {
	return m.settle(topic, id, lease, func() error {
		job := m.jobs[id]
		job.attempts--
		m.jobs[id] = job
		if later {
			m.pool[id] = modelEntry{}
		} else {
			queue := m.queue(topic, id)
			if m.queues[queue] = append([]string{id}, m.queues[queue]...); m.held[topic] {
				m.withdraw(topic, id)
				m.enqueue(topic, id) // behind the other parked jobs
			}
		}
		return nil
	})
}

func (m *model) requeue(id string) error {
	letter, dead := m.letters[id]
	if !dead {
		return client.ErrNotFound
	}
	if _, exists := m.jobs[id]; exists {
		return client.ErrExists
	}
	m.dropDead(id)
	delete(m.pool, id)
	letter.attempts, letter.lifetime, letter.leased, letter.burst, letter.grouped = 0, store.DefaultLifetime, false, 0, 0
	m.jobs[id] = letter
	m.enqueue(letter.topic, id)
	return nil
}

func (m *model) dropDead(id string) {
	delete(m.letters, id)
	delete(m.died, id)
}

func (m *model) oldPop(topic string) (id string, got bool) {
	if len(m.queues[topic]) == 0 || m.held[topic] {
		return "", false
	}
	id = m.queues[topic][0]
	m.queues[topic] = m.queues[topic][1:]
	_, got = m.jobs[id]
	delete(m.jobs, id)
	return id, got
}
