package client

import (
	"errors"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// mind sees to what changes: topics to be listened to, or not any more. It looks
// at the queues now and then. It ends when nobody waits, with the connection, or when that is to be
// replaced.
func (l *listener) mind(sub *store.Subscription, broken <-chan error) error {
	all := time.NewTicker(lookEvery)
	defer all.Stop()
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for polls := true; ; {
		if l.polls() != polls {
			if polls = !polls; polls {
				poll.Reset(pollEvery)
			} else {
				poll.Stop()
			}
		}
		var t turn
		select {
		case err := <-broken:
			return err
		case <-l.topics.client.closing.Done():
			return nil
		case <-l.changed:
			t = l.news()
		case <-poll.C:
			t.looked = l.nextPolled()
		case <-all.C:
			t = l.everything()
		}
		if t.ended {
			return nil
		}
		if err := errors.Join(sub.Add(t.added...), sub.Remove(t.removed...)); err != nil {
			return err
		}
		if err := l.look(t.looked); err != nil {
			return err
		}
	}
}

// turn is what mind does next.
type turn struct {
	added, removed []string      // channels
	looked         []*topicQueue // to be looked at
	ended          bool          // nobody waits, or the connection is to be replaced
}

// news are the topics that are new, and what may have come before they were listened to.
func (l *listener) news() turn {
	l.topics.mu.Lock()
	defer l.topics.mu.Unlock()
	t := turn{added: l.channels(l.added), looked: l.unseen, ended: l.leaves}
	l.added, l.unseen = nil, nil
	return t
}

func (l *listener) channels(queues []*topicQueue) []string {
	list := make([]string, len(queues))
	for i, q := range queues {
		list[i] = l.partition.store.Keys().Ready(q.topic)
	}
	return list
}

// polls reports whether any topic is polled.
func (l *listener) polls() bool {
	l.topics.mu.Lock()
	defer l.topics.mu.Unlock()
	return len(l.polled) > 0
}

// nextPolled are the polled queues whose turn it is.
func (l *listener) nextPolled() (looked []*topicQueue) {
	l.topics.mu.Lock()
	defer l.topics.mu.Unlock()
	l.forgetHeard()
	n := min(max(pollAtOnce, 1+len(l.polled)/int(lookEvery/pollEvery)), len(l.polled))
	first := slices.Clone(l.polled[:n])
	l.polled = append(l.polled[:0], append(l.polled[n:], first...)...)
	return slices.DeleteFunc(first, func(q *topicQueue) bool { return q.callers.Len() == 0 })
}

// forgetHeard takes off the polled queues those that need not be polled any more.
func (l *listener) forgetHeard() {
	l.polled = slices.DeleteFunc(l.polled, func(q *topicQueue) bool { return !q.refused })
}

// everything are all queues that are not polled, as far as somebody waits for their jobs. Topics
// that nobody has waited for lately are not listened to any more; channels that were
// refused are asked for again now and then.
func (l *listener) everything() (t turn) {
	l.topics.mu.Lock()
	defer l.topics.mu.Unlock()
	now, left := time.Now(), 0
	for _, q := range l.wanted() {
		switch {
		case q.callers.Len() > 0:
			if q.left = (time.Time{}); !q.refused {
				t.looked = append(t.looked, q)
			}
		case q.left.IsZero():
			q.left = now
		case now.Sub(q.left) >= lingerFor:
			q.wanted, q.refused = false, false
			q.idle()
			if !slices.ContainsFunc(l.topics.queues[q.topicKey], func(other *topicQueue) bool { return other.wanted }) {
				t.removed = append(t.removed, l.channels([]*topicQueue{q})...)
			}
			continue
		}
		left++
	}
	l.forgetHeard()
	if now.Sub(l.asked) >= listenAgain {
		t.added, l.asked = l.channels(l.polled), now
	}
	t.ended = left == 0
	return t
}

// look looks at the queues, and tells those that have jobs.
func (l *listener) look(queues []*topicQueue) error {
	if len(queues) == 0 {
		return nil
	}
	names := make([]string, len(queues))
	for i, q := range queues {
		names[i] = q.topic
	}
	p, err := l.partition.store.Pipeline(l.topics.client.closing)
	if err != nil {
		return err
	}
	defer p.Close()
	lengths, err := p.Ready(names)
	if err != nil {
		return err
	}
	if p.Replaced() {
		l.topics.client.listenAnew()
	}
	l.topics.mu.Lock()
	defer l.topics.mu.Unlock()
	full := map[*topicQueue]bool{}
	for i, length := range lengths {
		full[queues[i]] = length > 0
	}
	for i, length := range lengths {
		switch {
		case length > 0: // whether what went wrong is over, the pop will tell
			queues[i].tell(max(length, queues[i].ready)) // what was heard meanwhile may be newer
		default:
			queues[i].relieve(full)
		}
	}
	return nil
}

// relieve tells the callers of an empty queue that what went wrong is over, unless
// another of their queues has jobs: why these do not come is not known yet.
func (q *topicQueue) relieve(full map[*topicQueue]bool) {
	for e := q.callers.Front(); e != nil; e = e.Next() {
		if c := e.Value.(*caller); !c.isAsking() && !slices.ContainsFunc(c.places, func(p place) bool { return full[p.queue] }) {
			c.relieved()
		}
	}
}
