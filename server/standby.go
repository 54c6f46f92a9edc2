package server

import (
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// takeOverAfter is how long a due job waits for its own server before another server moves it.
const takeOverAfter = 50 * time.Millisecond

// prefer divides the partitions among this server and others by rendezvous hashing, so that one server moves the jobs of
// each. The servers do not agree on this: each computes the same result from the heartbeats. Servers that see different
// heartbeats try some jobs twice, which moves them once, and what nobody moves all servers take over after 50 ms.
func (s *Server) prefer(others []store.ServerState) {
	all := append([]store.ServerState{{ID: s.heartbeat.state.ID}}, others...)
	for _, m := range s.movers {
		best := store.Mover(m.number, all).ID == s.heartbeat.state.ID
		if m.standby.set(!best) {
			m.passBy(time.Now())
		} else if !best {
			m.leave()
		}
	}
}

// standby says whether another server should move the jobs of a mover's partition, and whether it does.
type standby struct {
	other    atomic.Bool // another server should move them
	tookOver atomic.Bool // but did not
	first    string      // the first due job at the last check
}

// idle reports whether the mover leaves the jobs to the other server.
func (b *standby) idle() bool { return b.other.Load() && !b.tookOver.Load() }

// set records whether another server should move them, and reports whether it has gone. A new one has to show that it works.
func (b *standby) set(other bool) (gone bool) {
	b.tookOver.Store(false)
	return b.other.Swap(other) && !other
}

// passed records the end of a pass. If it moved jobs, this server has taken over, until a pass finds nothing to move because
// the other server works again.
func (b *standby) passed(moved bool) {
	b.tookOver.Store(b.other.Load() && moved)
	b.first = ""
}

type judgement int

const (
	notYet judgement = iota
	moveNow
	otherAtWork
)

// judge decides what to do about the first due job. If the same job is first after takeOverAfter, the other server does not
// work; if it works through a backlog, another job is first each time.
func (b *standby) judge(first string, overdue time.Duration) judgement {
	was := b.first
	b.first = first
	switch {
	case !b.idle():
		return moveNow
	case overdue < takeOverAfter:
		return notYet
	case first != was:
		return otherAtWork
	}
	return moveNow
}
