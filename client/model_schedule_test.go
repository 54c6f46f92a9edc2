package client_test

import (
	"github.com/mix-basic/delayer/internal/store"
)

// put stores or changes a schedule. The test reads the next occurrence from Redis, unless the model has one.
func (m *model) put(id, body, to string, overlap string) {
	m.jobs[id] = modelJob{topic: store.ScheduleTopic, body: body, to: to, overlap: overlap, last: m.jobs[id].last}
	m.pool[id] = modelEntry{score: m.occurrences[id]}
}

// run pushes a job of the schedule and returns its ID. If the job follows the schedule's last job, run returns the ID
// of that one. If overlaps are skipped, run pushes nothing while the last job is not done.
func (m *model) run(id, job string, skips bool) string {
	s := m.jobs[id]
	pushed := modelJob{topic: s.to, body: "b", lifetime: store.DefaultLifetime}
	last, busy := m.jobs[s.last]
	if busy && s.overlap == "follow" {
		if last.leased && !last.anew {
			last.follower = &modelFollower{pushed, m.now}
			m.jobs[s.last] = last
		}
		return s.last
	}
	if busy && skips && s.overlap == "skip" {
		return job
	}
	s.last = job
	m.jobs[id] = s
	if _, exists := m.jobs[job]; exists {
		return job
	}
	m.jobs[job] = pushed
	m.enqueue(s.to, job)
	return job
}

// unschedule deletes a schedule. If an old server has moved the schedule to a queue, the entry there stays.
func (m *model) unschedule(id string) bool {
	_, exists := m.occurrences[id]
	delete(m.occurrences, id)
	delete(m.paused, id)
	delete(m.pool, id)
	delete(m.jobs, id)
	return exists
}

// due returns the IDs of due schedules, in due order.
func (m *model) due() (ids []string) {
	for _, id := range inOrder(m.pool, func(e modelEntry) float64 { return e.score }) {
		if _, is := m.occurrences[id]; is && m.isDue(m.pool[id]) {
			ids = append(ids, id)
		}
	}
	return ids
}

// repair puts schedules that an old server has moved back into the pool.
func (m *model) repair() {
	delete(m.queues, store.ScheduleTopic)
	for id, next := range m.occurrences {
		if _, waits := m.pool[id]; !waits {
			m.pool[id] = modelEntry{score: next}
		}
	}
}
