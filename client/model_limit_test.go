package client_test

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// modelShare is a queue's share of its topic's limit. Times are in days since the run began. The rates in the test
// admit a whole day's jobs at once, and a run is much shorter than a day.
type modelShare struct {
	concurrency int // -1: any number
	interval    float64
	burst       int
	next        float64 // when the next job may begin
}

const (
	instant  = 1e-9               // a time during the run
	madeUp   = 0.25 / (24 * 3600) // shorter delays are made up for
	noNumber = -1
)

// limit limits a topic's jobs.
func (m *model) limit(topic string, l client.Limit) {
	m.limits[topic] = l
	if l == (client.Limit{}) {
		delete(m.limits, topic)
	}
	for place := range m.partitions {
		queue := m.queueAt(topic, place)
		if l == (client.Limit{}) {
			delete(m.shares, queue)
			delete(m.slots, queue)
			continue
		}
		m.setShare(topic, place, l)
	}
}

func (m *model) setShare(topic string, place int, l client.Limit) {
	queue, s := m.queueAt(topic, place), m.share(l, place)
	was := m.shares[queue]
	if was != nil {
		s.next = min(was.next, s.interval)
	} else {
		s.next = math.Inf(-1)
	}
	m.shares[queue] = &s
	if s.concurrency == noNumber {
		delete(m.slots, queue)
	}
}

// share returns the share of the partition with this number.
func (m *model) share(l client.Limit, place int) modelShare {
	of := m.partitions
	if l.Tag != "" {
		if place != store.PartitionOf("{"+l.Tag+"}", of) {
			return modelShare{}
		}
		of = 1
	}
	shareOf := func(all int) int {
		n := all / of
		if of > 1 && place < all%of {
			n++
		}
		return max(n, 1)
	}
	s := modelShare{concurrency: noNumber}
	if l.Burst > 0 {
		s.burst = shareOf(l.Burst)
	}
	if l.Concurrency > 0 {
		s.concurrency = shareOf(l.Concurrency)
	}
	if l.Rate > 0 {
		s.interval = float64(of) / (l.Rate * 24 * 3600)
	}
	return s
}

// since returns the time from which the next job of the share may begin, as if the jobs came evenly.
func (s *modelShare) since() float64 {
	early := madeUp
	if s.burst > 0 {
		early = float64(s.burst-1) * s.interval
	}
	return max(s.next, -early)
}

// isOpen reports whether a job of the queue may be reserved now.
func (m *model) isOpen(queue string) bool {
	s := m.shares[queue]
	if s == nil {
		return true
	}
	taken := 0
	for _, id := range m.slots[queue] {
		if !m.isFree(id) {
			taken++
		}
	}
	return (s.concurrency == noNumber || taken < s.concurrency) && (s.interval == 0 || s.since() <= instant)
}

// begin records that a job of the queue is reserved.
func (m *model) begin(queue, id string) {
	s := m.shares[queue]
	switch {
	case s == nil:
		return
	case s.interval > 0:
		s.next = s.since() + s.interval
	}
	if s.concurrency != noNumber {
		m.enter(queue, id)
	}
}

// enter gives the job a slot.
func (m *model) enter(queue, id string) {
	if s := m.shares[queue]; s != nil && s.concurrency != noNumber {
		m.free(queue, id)
		m.slots[queue] = append(m.slots[queue], id)
	}
}

// free frees the job's slot.
func (m *model) free(queue, id string) {
	m.slots[queue] = slices.DeleteFunc(slices.Clone(m.slots[queue]), func(slot string) bool { return slot == id })
}

// isFree reports whether the job has no lease, which means that its slot is free. A later reserve forgets the slot.
func (m *model) isFree(id string) bool {
	entry := m.pool[id]
	return entry.lease == 0 || entry.score > 0 && m.isDue(entry) // 0: the test has not read its end yet
}

// limitState adds limits and slots to the state of Redis.
func (m *model) limitState(s *state) {
	s.Limits, s.Slots = map[string]string{}, map[string][]string{}
	for topic, l := range m.limits {
		s.Limits[topic] = fmt.Sprintf("%d %s %d %s", l.Concurrency, strconv.FormatFloat(l.Rate, 'g', -1, 64), l.Burst, l.Tag)
	}
	for queue, slots := range m.slots {
		topic, _, _ := strings.Cut(queue, " of ")
		if len(slots) > 0 {
			s.Slots[topic] = append(s.Slots[topic], slots...)
		}
	}
	for _, ids := range s.Slots {
		slices.Sort(ids)
	}
}

// forgetSlots forgets free slots, here and in Redis.
func (r *modelRun) forgetSlots() {
	for queue, slots := range r.model.slots {
		topic, _, _ := strings.Cut(queue, " of ")
		for _, id := range slots {
			if r.model.isFree(id) {
				r.model.free(queue, id)
				for _, s := range r.jobs.Stores {
					r.Do("ZREM", s.Keys().Slots(topic), id)
				}
			}
		}
	}
}
