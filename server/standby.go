package server

import (
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// takeOverAfter is how much later than the other servers one makes the passes of a mover that another server should make.
const takeOverAfter = 50 * time.Millisecond

// prefer divides the movers among this server and others by rendezvous hashing, so that one server moves each one's
// jobs; the others are on standby there. The servers do not agree on this: each computes the same result from the heartbeats.
// On standby a server makes every pass takeOverAfter later. Usually it then finds nothing due; if the other server is
// dead or slow, it moves the jobs. Servers that see different heartbeats try some jobs twice, which moves them once.
func (s *Server) prefer(others []store.ServerState) {
	all := append([]store.ServerState{{ID: s.heartbeat.state.ID}}, others...)
	for _, m := range s.movers {
		m.standby.Store(fleet.Mover(m.number, all).ID != s.heartbeat.state.ID)
		m.ring()
	}
}
