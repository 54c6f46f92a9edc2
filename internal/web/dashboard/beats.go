package dashboard

import (
	"slices"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// beats are the heartbeats of the servers.
type beats struct {
	At    time.Time // by Redis's clock
	List  []store.ServerState
	Acked int64 // how many jobs were ever acknowledged
	Err   error
}

// alive is how many servers have given a sign of life lately.
func (b beats) alive() int {
	n := 0
	for _, s := range b.List {
		if !s.Stale() {
			n++
		}
	}
	return n
}

// since are what the servers have done since that other reading. What one did that ended meanwhile,
// after its last heartbeat, is not known; nor how much of all is new that one did which had been
// taken for gone.
func (b beats) since(before beats) (moved int64, late store.Lateness) {
	for _, s := range b.List {
		past := store.Totals{}
		if i := slices.IndexFunc(before.List, func(o store.ServerState) bool { return o.ID == s.ID }); i >= 0 {
			past = before.List[i].Totals
		} else if s.Started.Before(before.At) {
			past = s.Totals
		}
		moved += s.Moved - past.Moved
		late = late.Plus(s.Lateness)
		for bucket, n := range past.Lateness.Counts {
			late.Counts[bucket] -= n
		}
	}
	return moved, late
}

// late is the lateness of all jobs that the servers have moved.
func (b beats) late() (all store.Lateness) {
	for _, s := range b.List {
		all = all.Plus(s.Lateness)
	}
	return all
}
