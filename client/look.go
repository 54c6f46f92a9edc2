package client

import (
	"errors"
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// mind sees to what changes: topics to be listened to, or not any more. It looks
// at the queues now and then. It ends when nobody waits, or with the connection.
func (l *listener) mind(sub *store.Subscription, broken <-chan error, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		var all bool
		select {
		case err := <-broken:
			return err
		case <-l.topics.client.closing.Done():
			return nil
		case <-l.changed:
		case <-tick.C:
			all = true
		}
		added, removed, looked, ended := l.plan(all, sub != nil)
		if ended {
			return nil
		}
		if sub != nil {
			if err := errors.Join(sub.Add(added...), sub.Remove(removed...)); err != nil {
				return err
			}
		}
		if err := l.look(looked); err != nil {
			return err
		}
		if sub == nil && !l.isRefused() {
			return nil
		}
	}
}

// plan says which channels are to be added and removed, and which queues to be looked at.
func (l *listener) plan(all, listening bool) (added, removed []string, looked []*topicQueue, ended bool) {
	l.topics.mu.Lock()
	defer l.topics.mu.Unlock()
	keys := l.partition.store.Keys()
	for _, q := range l.added {
		added = append(added, keys.Ready(q.topic))
	}
	looked = l.unseen
	if !listening {
		looked = append(looked, l.added...)
	}
	l.added, l.unseen = nil, nil
	if !all {
		return added, nil, looked, false
	}
	looked = nil
	now, left := time.Now(), 0
	for _, q := range l.wanted() {
		switch {
		case q.callers.Len() > 0:
			q.left = time.Time{}
			looked = append(looked, q)
		case q.left.IsZero():
			q.left = now
		case now.Sub(q.left) >= lingerFor:
			q.wanted = false
			q.idle()
			if !slices.ContainsFunc(l.topics.queues[q.topicKey], func(other *topicQueue) bool { return other.wanted }) {
				removed = append(removed, keys.Ready(q.topic))
			}
			continue
		}
		left++
	}
	return added, removed, looked, left == 0
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
	lengths, err := l.partition.store.Ready(l.topics.client.closing, names)
	if err != nil {
		return err
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
		if c := e.Value.(*caller); c.asks == 0 && !slices.ContainsFunc(c.queues, func(q *topicQueue) bool { return full[q] }) {
			c.relieved()
		}
	}
}
