package wait

import (
	"time"
)

// stock is how many jobs each partition is believed to have ready, by topic. With it a caller of several topics need not probe every
// queue of every partition before each poll: it asks one partition for jobs of all topics that this one is believed to have. See aim.
//
// Probes of all partitions make a topic known. Then each poll and each check corrects its numbers, and wake-ups raise them.
// They are estimates, as others push and take, too: a poll may bring less, and a job in a queue that is believed to be empty waits for a
// wake-up or for the next probe; see isFresh. Whatever is not plain goes the full way, which begins with a probe: an
// unknown topic, an error, a node that is away.
//
// It is nil if there is one partition; of, set and raise then do nothing. Dispatcher.mu guards it.
type stock struct {
	topics  map[string]*topicStock
	jobs    int       // the sum of all topics
	taken   int       // jobs that polls have brought so far
	dropped time.Time // when unused topics were last dropped
}

// topicStock is the part of one topic.
type topicStock struct {
	jobs     []int     // by partition, less what callers have claimed
	limited  bool      // a limit has throttled it
	probedAt time.Time // zero if that is still to come
	taken    int       // stock.taken at that time
}

// keepTopic is how long a topic is kept after its last probe.
const keepTopic = 5 * time.Minute

func newStock(partitions int) *stock {
	if partitions == 1 {
		return nil
	}
	return &stock{topics: map[string]*topicStock{}, dropped: time.Now()}
}

// add makes the topics known to a probe that is about to begin.
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

// probed notes that a probe of the topics has reached all partitions.
func (k *stock) probed(topics []string) {
	now := time.Now()
	for _, name := range topics {
		if topic := k.topics[name]; topic != nil {
			topic.probedAt, topic.taken = now, k.taken
		}
	}
}

// isFresh reports whether the next probe of the topic is still to wait. A probe costs a command for each of so many queues. The budget is a
// command for every four jobs taken, about a twentieth of what these cost, plus 500 commands a second: so probes of many Clients can't
// overload a Redis that is slow already, and a worker with slow handlers does not wait for long.
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

// set notes how many jobs a queue has.
func (k *stock) set(q *waitQueue, jobs int) {
	if topic := k.of(q.topic); topic != nil {
		k.put(topic, q.partition.index, jobs)
	}
}

// raise notes that a queue has at least so many jobs.
func (k *stock) raise(s *partition, name string, jobs int) {
	if topic := k.of(name); topic != nil {
		k.put(topic, s.index, max(topic.jobs[s.index], jobs))
	}
}

// learn notes what a poll of a queue has brought: it asked for so many jobs, got some, and left is how many remain, -1 if that is unknown.
// A wake-up since the poll was sent is newer. A throttled topic is tried once more, because callers of a limited topic register
// (see target), and then not until the limit lets it go on.
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
	case !aimed: // an aimed caller has claimed its jobs before
		k.put(topic, partition, max(topic.jobs[partition]-got, 0))
	}
	topic.limited = topic.limited || held
}

// target is what a caller is to ask for.
type target struct {
	from   *partition // nil if no partition is believed to have jobs
	topics []int      // indices of the caller's topics; nil if a probe is due
	leaves bool       // more jobs are believed to remain, and no limit is involved
}

// target picks the partition that has the earliest of the caller's topics; if several partitions have it, they take turns. The caller asks it for
// topics with about twice as many jobs as it wants, all taken in one way. What it wants is deducted, so that callers who come now go elsewhere.
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
