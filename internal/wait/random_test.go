package wait

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/mix-basic/delayer/internal/store"
)

// redisModel models Redis as a Client sees it, with the messages in flight in both directions.
type redisModel struct {
	*hand
	r        *rand.Rand
	topics   []string
	ready    map[inRedis]int
	isListed map[inRedis]bool
	others   bool             // another Client always waits, too
	told     map[inRedis]bool // the other Client was woken for these
	heard    []inRedis        // wake-ups for this Client in flight
	polls    []*poll          // in flight
	checks   []*check         // in flight
	answers  []func()         // replies in flight
}

// inRedis is a topic's ready queue in a partition.
type inRedis struct {
	partition *Partition
	topic     string
}

func (m *redisModel) wake(q inRedis) {
	switch {
	case m.ready[q] == 0:
	case m.isListed[q]:
		m.isListed[q] = false
		m.heard = append(m.heard, q)
	default:
		m.told[q] = true
	}
}

// do does what pop.lua does.
func (m *redisModel) do(one *poll) {
	topics := one.queue.from
	p, room := store.Popped{Registered: one.Waiter != "", Remaining: make([]int, len(topics))}, one.N
	for i, t := range topics {
		q := inRedis{t.partition, t.topic.name}
		want := room
		if one.Limits != nil {
			want = min(room, one.Limits[i])
		}
		got := min(want, m.ready[q])
		p.Jobs = append(p.Jobs, jobs(t.topic.name, got)...)
		m.ready[q], room = m.ready[q]-got, room-got
		if want == 0 {
			continue
		}
		left := 0
		if got == want {
			left = -1
			if one.Always || m.isListed[q] || m.others {
				left = m.ready[q]
			}
			m.wake(q)
		}
		if left == 0 && p.Registered && (got < want || one.Always) {
			m.isListed[q] = true
		}
		if got > 0 {
			p.Remaining[i] = left
		}
	}
	m.answers = append(m.answers, func() { m.answer(one, p, nil) })
}

// check does what check.lua does.
func (m *redisModel) check(k *check) {
	lengths := map[string]int{}
	var added []string
	for i, t := range k.queues {
		q := inRedis{t.partition, t.topic.name}
		if lengths[t.topic.name] = m.ready[q]; m.ready[q] == 0 && k.Waiter != "" && k.Since[i] >= 0 {
			if !m.isListed[q] {
				added = append(added, t.topic.name)
			}
			m.isListed[q] = true
		}
	}
	m.answers = append(m.answers, func() { m.finds([]*check{k}, true, lengths, added...) })
}

// step delivers one message in flight, at random. It reports whether there was one.
func (m *redisModel) step() bool {
	for _, p := range m.all {
		if one := p.asks(); one != nil { // before that, turns that nobody needs any more are dropped
			m.polls = append(m.polls, one)
		}
		m.shared.mu.Lock()
		unused := p.unused
		p.unused = nil
		m.shared.mu.Unlock()
		for _, topic := range unused {
			m.wake(inRedis{p, topic})
		}
	}
	if topics := m.listener.news(); len(topics) > 0 {
		m.checks = append(m.checks, m.listener.question(topics)...)
	}
	var can []func()
	if len(m.polls) > 0 {
		can = append(can, func() { m.do(pull(&m.polls, m.r)) })
	}
	if len(m.checks) > 0 {
		can = append(can, func() { m.check(pull(&m.checks, m.r)) })
	}
	if len(m.answers) > 0 {
		can = append(can, func() { pull(&m.answers, m.r)() })
	}
	if len(m.heard) > 0 {
		can = append(can, func() {
			q := pull(&m.heard, m.r)
			m.shared.mu.Lock()
			q.partition.wake(q.topic, 1)
			m.shared.mu.Unlock()
		})
	}
	if len(can) > 0 {
		can[m.r.IntN(len(can))]()
	}
	return len(can) > 0
}

func pull[T any](list *[]T, r *rand.Rand) T {
	i := r.IntN(len(*list))
	one := (*list)[i]
	*list = slices.Delete(*list, i, i+1)
	return one
}

// act simulates an outside event: a new job, or a caller that joins or leaves.
func (m *redisModel) act() {
	topics := slices.Clone(m.topics)
	m.r.Shuffle(len(topics), func(i, k int) { topics[i], topics[k] = topics[k], topics[i] })
	switch m.r.IntN(4) {
	case 0, 1:
		q := inRedis{m.all[m.r.IntN(len(m.all))], topics[0]}
		m.ready[q]++
		m.told[q] = false
		m.wake(q)
	case 2:
		q := Request{Topics: topics[:1+m.r.IntN(len(topics))], N: 1 + m.r.IntN(3), Waits: m.r.IntN(4) > 0}
		q.Reserves = m.r.IntN(3) == 0
		for range q.Topics {
			q.Limits = append(q.Limits, 1+m.r.IntN(2))
		}
		m.joinsAt(m.all[m.r.IntN(len(m.all))], q)
	case 3:
		if len(m.guests) > 0 {
			m.guests[m.r.IntN(len(m.guests))].leaves(context.Canceled)
		}
	}
}

// Whatever the order of events and the number of partitions, once nothing is in flight: no caller waits for an available job,
// callers that do not wait have results, the client is registered where it expects to be, and unused wake-ups were passed to
// another Client.
func TestRandomOrders(t *testing.T) {
	for _, partitions := range []int{1, 1, 2, 3} {
		for range orders {
			randomOrder(t, partitions, rand.Uint64())
		}
	}
}

// orders is how many random orders there are for each number of partitions.
const orders = 1000

func randomOrder(t *testing.T, partitions int, seed uint64) {
	t.Helper()
	m := &redisModel{hand: inHands(t, partitions), r: rand.New(rand.NewPCG(seed, 0)), topics: []string{"x", "y", "z"}, ready: map[inRedis]int{}, isListed: map[inRedis]bool{}, told: map[inRedis]bool{}}
	m.others = m.r.IntN(2) == 0
	for range 60 {
		if m.r.IntN(3) == 0 {
			m.act()
		} else {
			m.step()
		}
	}
	for m.step() {
	}
	for _, g := range m.guests {
		if g.got == nil && (!g.Waits || g.Caller.topics == nil || g.isClaimed) {
			t.Fatalf("%d partitions, seed %d: who does not wait for %q has no answer", partitions, seed, g.Topics)
		}
	}
	for q, n := range m.ready {
		if n > 0 && !m.told[q] {
			t.Fatalf("%d partitions, seed %d: nobody was told of %d jobs of %s", partitions, seed, n, q.topic)
		}
	}
	for _, p := range m.all {
		for name, of := range p.shared.topics {
			q, l := inRedis{p, name}, &of.in[p.number]
			if len(of.waiters) > 0 && (m.ready[q] > 0 || !m.isListed[q]) || l.registered && !m.isListed[q] {
				t.Fatalf("%d partitions, seed %d: %s: %d jobs, %d waiters; isListed: %v, believed: %v", partitions, seed, name, m.ready[q], len(of.waiters), m.isListed[q], l.registered)
			}
		}
	}
}
