package wait

import (
	"time"
)

// stock estimates how many ready jobs each partition has, by topic. With it a caller of several topics need not probe every
// queue of every partition before each poll: it polls one partition for all topics that this one probably has jobs of. See aim.
//
// A topic becomes known by probes of all partitions. Polls and checks then correct its numbers, and wake-ups raise them.
// They are estimates, because others push and take too: a poll may bring less, and a job in a queue that seems empty waits for a
// wake-up or for the next probe; see isFresh. In every unusual case the caller joins all queues and probes: an
// unknown topic, an error, a node that does not answer.
//
// It is nil with one partition; of, set and raise then do nothing. Dispatcher.mu guards it.
type stock struct {
	topics  map[string]*topicStock
	jobs    int       // of all topics
	taken   int       // jobs that polls have brought so far
	dropped time.Time // when unused topics were last dropped
}

// topicStock is the stock of one topic.
type topicStock struct {
	jobs     []int     // by partition, minus what callers have claimed
	limited  bool      // it was throttled by a limit
	probedAt time.Time // zero before the first probe
	taken    int       // stock.taken at the last probe
}

const keepTopic = 5 * time.Minute

func newStock(partitions int) *stock {
	if partitions == 1 {
		return nil
	}
	return &stock{topics: map[string]*topicStock{}, dropped: time.Now()}
}

func (k *stock) add(topics []string, partitions int) {
	now := time.Now()
	if now.Sub(k.dropped) > keepTopic {
		for name, topic := range k.topics {
			if now.Sub(topic.probedAt) > keepTopic {
				for partition := range topic.jobs {
					k.put(topic, partition, 0)
				}
				delete(k.topics, name)
			}
		}
		k.dropped = now
	}
	for _, name := range topics {
		if k.topics[name] == nil {
			k.topics[name] = &topicStock{jobs: make([]int, partitions)}
		}
	}
}

// probed records that a probe of the topics has reached all partitions.
func (k *stock) probed(topics []string) {
	now := time.Now()
	for _, name := range topics {
		if topic := k.topics[name]; topic != nil {
			topic.probedAt, topic.taken = now, k.taken
		}
	}
}

// isFresh reports whether the topic needs no probe yet. A probe costs one command for each of these queues. The budget is one
// command for every four jobs taken, about a twentieth of what these cost, plus 500 commands a second: probes of many Clients cannot
// overload a slow Redis, and a worker with slow handlers does not wait for long.
func (k *stock) isFresh(topic *topicStock, now time.Time, queues int) bool {
	return (k.taken-topic.taken)/4+int(now.Sub(topic.probedAt).Milliseconds()/2) < queues
}

func (k *stock) of(name string) *topicStock {
	if k == nil {
		return nil
	}
	return k.topics[name]
}

func (k *stock) put(topic *topicStock, partition, jobs int) {
	k.jobs += jobs - topic.jobs[partition]
	topic.jobs[partition] = jobs
}

func (k *stock) set(q *waitQueue, jobs int) {
	if topic := k.of(q.topic); topic != nil {
		k.put(topic, q.partition.index, jobs)
	}
}

// raise records that a queue has at least that many jobs.
func (k *stock) raise(s *partition, name string, jobs int) {
	if topic := k.of(name); topic != nil {
		k.put(topic, s.index, max(topic.jobs[s.index], jobs))
	}
}

// learn takes in the result of a poll: it asked for asked jobs and got got; left is how many remain, -1 if unknown.
// A wake-up after the poll was sent wins. A topic that is throttled for the first time is tried once more, because callers of a limited topic register
// (see target), and then not before the limit allows it.
func (k *stock) learn(q *polledQueue, asked, got, left int, held, more, aimed bool) {
	topic := k.of(q.topic)
	if topic == nil {
		return
	}
	k.taken += got
	partition := q.partition.index
	switch {
	case q.waitQueue.wakes != q.wakes || held && !topic.limited:
	case held || got < asked && !more:
		k.put(topic, partition, 0)
	case more:
		k.put(topic, partition, max(topic.jobs[partition], 1))
	case left >= 0:
		k.put(topic, partition, left)
	case !aimed: // an aimed caller has already claimed its jobs
		k.put(topic, partition, max(topic.jobs[partition]-got, 0))
	}
	topic.limited = topic.limited || held
}

// target is what a caller should poll for.
type target struct {
	from   *partition // nil if no partition probably has jobs
	topics []int      // indices among the caller's topics; nil if a probe is due
	leaves bool       // more jobs probably remain, and no limit is involved
}

// target picks the partition that has the earliest of the caller's topics; if several have it, they take turns. The caller polls for
// topics with about twice as many jobs as it wants, all taken in the same way. What it wants is deducted, so that the next callers go elsewhere.
func (k *stock) target(r *Request, partitions []*partition, turn int) (found target) {
	now, first, due := time.Now(), 0, false
	for i, name := range r.Topics {
		topic := k.topics[name]
		if topic == nil {
			return target{}
		}
		due = due || !k.isFresh(topic, now, len(r.Topics)*len(partitions))
		for n := 0; found.from == nil && n < len(partitions); n++ {
			if s := partitions[(turn+n)%len(partitions)]; topic.jobs[s.index] > 0 {
				found.from, first = s, i
			}
		}
	}
	if found.from == nil || due {
		found.leaves = found.from != nil
		return found
	}
	partition, limited := found.from.index, false
	for i, believed := first, 0; i < len(r.Topics) && believed < 2*r.N && len(found.topics) < maxQueues; i++ {
		topic := k.topics[r.Topics[i]]
		if jobs := topic.jobs[partition]; jobs > 0 && *r.kind(i) == *r.kind(first) {
			n := min(jobs, r.limit(i))
			k.put(topic, partition, jobs-max(min(n, r.N-believed), 0))
			found.topics, believed, limited = append(found.topics, i), believed+n, limited || topic.limited
		}
	}
	found.leaves = k.jobs > 0 && !limited
	return found
}
