package server

import (
	"sync/atomic"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// standInAfter is how much later than the server that should have moved it another one moves a job.
const standInAfter = 50 * time.Millisecond

// prefer divides the partitions among this server and others, so that each is moved by one. Nothing is agreed upon: all
// servers come to the same by themselves, those that are not of the same mind do some work twice, and what
// nobody does is done 50 ms later by all.
func (s *Server) prefer(others []store.ServerState) {
	all := append([]store.ServerState{{ID: s.heart.state.ID}}, others...)
	for _, m := range s.movers {
		best := store.Mover(m.number, all).ID == s.heart.state.ID
		if m.standBy.set(!best) {
			m.lookBy(time.Now())
		} else if !best {
			m.leave()
		}
	}
}

// standBy is what a mover knows of the server that should move its partition's jobs.
type standBy struct {
	other    atomic.Bool // there is one
	standsIn atomic.Bool // but it doesn't
	first    string      // the job that was to fall due first when it was last looked
}

// idle reports whether jobs are left to another server.
func (b *standBy) idle() bool { return b.other.Load() && !b.standsIn.Load() }

// set enters whether there is another server, and reports whether it has gone. It is to show again whether it works.
func (b *standBy) set(other bool) (gone bool) {
	b.standsIn.Store(false)
	return b.other.Swap(other) && !other
}

// passed enters that a pass is over. One that has moved jobs has done the other server's work, which goes on until
// that one does it: then there is nothing left to move.
func (b *standBy) passed(moved bool) {
	b.standsIn.Store(b.other.Load() && moved)
	b.first = ""
}

type judgement int

const (
	itIsEarly judgement = iota
	itIsTime
	somebodyWorks
)

// judge says what to do about a job that falls due first, and has been due for so long. Who is stuck with a job for
// standInAfter is not at work; who has a backlog has another first job each time.
func (b *standBy) judge(first string, overdue time.Duration) judgement {
	was := b.first
	b.first = first
	switch {
	case !b.idle():
		return itIsTime
	case overdue < standInAfter:
		return itIsEarly
	case first != was:
		return somebodyWorks
	}
	return itIsTime
}
