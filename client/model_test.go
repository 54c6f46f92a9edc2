package client_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// model predicts the content of Redis: it implements each operation as simply as possible. Times are Unix seconds. They
// are far from now, so that no time passes while a test runs.
type model struct {
	now         float64
	pool        map[string]modelEntry
	queues      queues // in order of delivery; with several partitions, named as in redistest.State
	jobs        map[string]modelJob
	letters     map[string]modelJob
	once        map[string]bool    // IDs whose further pushes do not count
	paused      map[string]bool    // IDs of schedules
	occurrences map[string]float64 // the next one, by schedule ID
	groups      map[string]string  // the job that was pushed to last, by tag
	died        map[string]float64 // when letters died, by ID
	counts      map[string]int
	held        map[string]bool // paused topics
	leases      int             // number of leases so far
	limits      map[string]client.Limit
	shares      map[string]*modelShare // by queue, for topics with a limit
	slots       map[string][]string    // by queue: the jobs that have or had a slot

	followers []modelFollowing // of jobs that have just ended

	partitions int
}

// soon is the longest duration of a run, in s. A job that falls due within it was due from the beginning.
const soon = 20

// modelEntry is an entry of the pool.
type modelEntry struct {
	score float64
	lease int // number of the lease, from 1 on; 0: the score is a due time
}

type modelJob struct {
	topic, body           string
	to, last              string // of a schedule: the topic of its jobs, and its last job
	overlap               string
	attempts, maxAttempts int
	lifetime              time.Duration // counts from when it is ready
	leased                bool          // since the last push
	burst                 int           // of debounced pushes: 0 none, 1 begun, 2 over
	grouped               int           // number of bodies if it is a group
	anew                  bool          // an old client has pushed it again; the next reserve or reschedule notices that
	follower              *modelFollower
}

// modelFollower replaces a job when the job is done.
type modelFollower struct {
	modelJob
	due float64
}

// beginAnew resets a job that an old client has pushed again.
func (j *modelJob) beginAnew() {
	if j.anew {
		j.attempts, j.maxAttempts, j.anew, j.follower = 0, 0, false, nil
	}
}

func newModel(now float64, partitions int) *model {
	return &model{
		partitions: partitions, now: now, pool: map[string]modelEntry{}, queues: queues{}, jobs: map[string]modelJob{},
		letters: map[string]modelJob{}, died: map[string]float64{}, counts: map[string]int{},
		once: map[string]bool{}, paused: map[string]bool{}, occurrences: map[string]float64{}, held: map[string]bool{},
		groups: map[string]string{}, limits: map[string]client.Limit{}, shares: map[string]*modelShare{}, slots: map[string][]string{},
	}
}

// state returns the model in the form in which the test reads Redis.
func (m *model) state() state {
	s := state{Ready: queues{}, Paused: queues{}, Buckets: buckets{}, Dead: queues{}, Letters: buckets{}, Counts: map[string]string{}}
	for _, id := range inOrder(m.pool, func(e modelEntry) float64 { return e.score }) {
		if m.pool[id].lease > 0 {
			s.Reserved = append(s.Reserved, id)
		} else {
			s.Pool = append(s.Pool, id)
		}
	}
	for queue, ids := range m.queues {
		topic, _, _ := strings.Cut(queue, " of ")
		switch {
		case len(ids) == 0:
		case m.held[topic]:
			s.Paused[queue] = ids
		default:
			s.Ready[queue] = ids
		}
	}
	s.Once = slices.Sorted(maps.Keys(m.once))
	for id := range m.occurrences {
		s.Schedules = append(s.Schedules, id[1:strings.Index(id, "}")])
	}
	slices.Sort(s.Schedules)
	m.limitState(&s)
	for id, job := range m.jobs {
		s.Buckets[id] = job.topic + " " + job.body
	}
	for _, id := range inOrder(m.died, func(at float64) float64 { return at }) {
		letter := m.letters[id]
		s.Letters[id] = letter.topic + " " + letter.body
		s.Dead[letter.topic] = append(s.Dead[letter.topic], id)
	}
	for topic, n := range m.counts {
		if n != 0 {
			s.Counts[topic] = strconv.Itoa(n)
		}
	}
	return s
}

// inOrder returns the IDs in the order of a sorted set.
func inOrder[T any](entries map[string]T, score func(T) float64) []string {
	return slices.SortedFunc(maps.Keys(entries), func(a, b string) int {
		return cmp.Or(cmp.Compare(score(entries[a]), score(entries[b])), cmp.Compare(a, b))
	})
}

// leastLifetime returns the minimum remaining TTL of the job's bucket. A job's lifetime does not pass while the job
// waits. Each time the job is reserved, less than a hundredth of its lifetime passes.
func (m *model) leastLifetime(id string) time.Duration {
	lifetime := m.jobs[id].lifetime * 9 / 10
	entry := m.pool[id]
	left := time.Duration((entry.score - m.now) * float64(time.Second))
	switch {
	case m.jobs[id].topic == store.ScheduleTopic: // kept forever
		return -1
	case entry.score <= m.now:
		return lifetime
	case entry.lease > 0:
		return max(lifetime, left-soon*time.Second)
	}
	return left + lifetime
}

func (m *model) isDue(e modelEntry) bool { return e.score <= m.now+soon }

// queue returns the name of the topic's queue in the job's partition.
func (m *model) queue(topic, id string) string { return m.queueAt(topic, m.place(id)) }

// place returns the job's partition.
func (m *model) place(id string) int { return store.PartitionOf(id, m.partitions) }

func (m *model) queueAt(topic string, place int) string {
	if m.partitions == 1 {
		return topic
	}
	return fmt.Sprintf("%s of %d", topic, place)
}

// queuesOf returns the names of the topics' queues, partition by partition.
func (m *model) queuesOf(topics []string) (names []string) {
	if m.partitions == 1 {
		return topics
	}
	for i := range m.partitions {
		for _, topic := range topics {
			names = append(names, fmt.Sprintf("%s of %d", topic, i))
		}
	}
	return names
}

// enqueue appends a job to its queue.
func (m *model) enqueue(topic, id string) {
	queue := m.queue(topic, id)
	m.queues[queue] = append(m.queues[queue], id)
}

// withdraw removes all of an ID's entries from a queue.
func (m *model) withdraw(topic, id string) {
	queue := m.queue(topic, id)
	m.queues[queue] = slices.DeleteFunc(slices.Clone(m.queues[queue]), func(other string) bool { return other == id })
}

// leave removes the job from the pool or its queue, for a call that names the job.
func (m *model) leave(id string) {
	entry, waits := m.pool[id]
	job, exists := m.jobs[id]
	delete(m.pool, id)
	switch {
	case exists && !waits:
		m.withdraw(job.topic, id)
	case exists && entry.lease > 0:
		m.counts[job.topic]--
		m.free(m.queue(job.topic, id), id)
	}
}

// schedule makes a job ready if it is due, and makes it wait otherwise.
func (m *model) schedule(id string, due float64) {
	if due <= m.now+soon {
		m.enqueue(m.jobs[id].topic, id)
	} else {
		m.pool[id] = modelEntry{score: due}
	}
}

func (m *model) push(id string, job modelJob, due float64, p modelPolicy) (client.Outcome, error) {
	entry, waits := m.pool[id]
	follows := p.follows && waits && entry.lease > 0 && !m.isDue(entry)
	entry, waits = m.pool[id]
	if m.once[id] && p.once {
		return client.OutcomeRefused, client.ErrExists
	}
	did := client.OutcomeCreated
	if p.debounced {
		job.burst = 1
	}
	if was, exists := m.jobs[id]; exists {
		did = client.OutcomeReplaced
		if was.topic != job.topic && !p.moves && !p.refuses() {
			return client.OutcomeRefused, client.ErrOtherTopic
		}
		if follows {
			was.follower = &modelFollower{job, due}
			m.jobs[id] = was
			return client.OutcomeFollowed, nil
		}
		if p.debounced && was.burst == 2 && !was.leased {
			due, job.burst = m.now, 2
		}
		old := m.now
		if waits && entry.lease == 0 {
			old = entry.score
		}
		switch {
		case p.refuses():
			return client.OutcomeRefused, client.ErrExists
		case p.earlier && old < due, p.later && old > due:
			due, did = old, client.OutcomeKept
		}
	}
	m.leave(id)
	m.jobs[id] = job
	m.schedule(id, due)
	if p.once {
		m.once[id] = true
	}
	return did, nil
}

// group adds a body to the tag's group, or starts a group with this ID. own is the push's ID if it has Once. The test
// reads the group's due time from Redis.
func (m *model) group(tag, own, id string, job modelJob, most int) (client.Outcome, error) {
	if m.once[tag+own] && own != "" {
		return client.OutcomeRefused, client.ErrExists
	}
	did := client.OutcomeCreated
	was, exists := m.jobs[m.groups[tag]]
	entry, waits := m.pool[m.groups[tag]]
	job.body, job.grouped = "["+job.body+"]", 1
	isGroup := exists && waits && entry.lease == 0 && was.grouped > 0 && !was.leased && was.topic == job.topic && strings.HasSuffix(was.body, "]")
	switch {
	case isGroup && m.isDue(entry): // it is ready before the next push
		delete(m.pool, m.groups[tag])
		m.enqueue(was.topic, m.groups[tag])
	case isGroup:
		did, id = client.OutcomeAdded, m.groups[tag]
		job.body, job.grouped = strings.TrimSuffix(was.body, "]")+","+job.body[1:], was.grouped+1
	}
	m.jobs[id], m.pool[id], m.groups[tag] = job, m.unlearnt(), id
	if most > 0 && job.grouped >= most {
		delete(m.pool, id)
		delete(m.groups, tag)
		m.enqueue(job.topic, id)
	}
	if own != "" {
		m.once[tag+own] = true
	}
	return did, nil
}

// unlearnt returns the entry of a job that is not due and has no known due time.
func (m *model) unlearnt() modelEntry { return modelEntry{score: m.now + 1e12} }

// modelPolicy is the effect of a push on a job that exists.
type modelPolicy struct {
	name                                                    string
	option                                                  client.PushOption
	moves, earlier, later, refuse, once, debounced, follows bool
}

func (p modelPolicy) String() string { return p.name }

func (p modelPolicy) refuses() bool { return p.once || p.refuse }

func (m *model) remove(id string, unlessReserved bool) (was client.State, err error) {
	_, exists := m.jobs[id]
	_, dead := m.letters[id]
	entry, waits := m.pool[id]
	switch {
	case exists && waits && entry.lease > 0 && unlessReserved:
		return "", client.ErrReserved
	case exists && waits && entry.lease > 0:
		was = client.StateReserved
	case exists && waits:
		was = client.StateWaiting
	case exists:
		was = client.StateReady
	case dead:
		was = client.StateDead
	}
	m.leave(id)
	delete(m.jobs, id)
	delete(m.once, id)
	if !exists {
		m.dropDead(id)
	}
	return was, nil
}

// reschedule makes a job ready, or makes it wait until a time that the test reads from Redis.
func (m *model) reschedule(id string, later bool) error {
	job, exists := m.jobs[id]
	_, waits := m.pool[id]
	if later || waits {
		job.beginAnew()
	}
	switch {
	case !exists:
		return client.ErrNotFound
	case later:
		m.leave(id)
		m.pool[id], m.jobs[id] = modelEntry{}, job
	case waits:
		m.leave(id)
		m.jobs[id] = job
		m.enqueue(job.topic, id)
	}
	return nil
}

// pass runs a server's pass. Our server has fired schedules before it; it drops entries without a job and counts leases
// that end.
func (m *model) pass(ours bool) {
	for _, id := range inOrder(m.pool, func(e modelEntry) float64 { return e.score }) {
		entry := m.pool[id]
		job, exists := m.jobs[id]
		if !m.isDue(entry) || !exists && !ours {
			continue
		}
		delete(m.pool, id)
		if exists {
			m.enqueue(job.topic, id)
		}
		if exists && ours && entry.lease > 0 {
			m.counts[job.topic]--
		}
	}
}

// Operations of old clients.

func (m *model) oldPush(id string, topic, body string, due float64, anew bool) {
	job := m.jobs[id]
	job.topic, job.body, job.lifetime, job.anew = topic, body, store.DefaultLifetime, anew
	m.jobs[id] = job
	m.pool[id] = modelEntry{score: due}
}

func (m *model) oldRemove(id string) bool {
	_, waits := m.pool[id]
	_, exists := m.jobs[id]
	delete(m.pool, id)
	delete(m.jobs, id)
	return waits && exists
}
