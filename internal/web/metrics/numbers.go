package metrics

import (
	"context"
	"sync"

	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/store"
)

// numbers are what is read of Redis. One that can't be read is inspect.Unknown.
type numbers struct {
	inspect.Counts
	pauses    inspect.Pauses
	schedules inspect.ScheduleStates // with an Overdue below 0 if they can't be read
	paused    int                    // topics; inspect.Unknown if they can't be read
	servers   int                    // that run
	strays    []store.Stray          // jobs that nobody looks for
	acked     int64                  // since the first scrape and before
}

// numbers are what the readings find.
func (m *Metrics) numbers(ctx context.Context, reading *inspect.Reading[inspect.Snapshot], schedules *inspect.Reading[inspect.ScheduleStates]) (n numbers, err error) {
	snapshot, err := reading.Wait(ctx)
	if err != nil {
		return numbers{}, err
	}
	n = numbers{Counts: snapshot.Counts, strays: snapshot.Strays, servers: inspect.Unknown, acked: inspect.Unknown, paused: inspect.Unknown}
	if snapshot.ServersErr == nil {
		n.servers = 0
		for _, s := range snapshot.Servers {
			if !s.Stale() {
				n.servers++
			}
		}
	}
	if snapshot.PausesErr == nil {
		n.pauses, n.paused = snapshot.Pauses, len(snapshot.Pauses)
	}
	if n.schedules, err = schedules.Wait(ctx); err != nil {
		n.schedules = inspect.ScheduleStates{Active: inspect.Unknown, Paused: inspect.Unknown, Ended: inspect.Unknown, Overdue: inspect.Unknown}
	}
	if snapshot.Acked >= 0 {
		n.acked = m.acked.follow(snapshot.Acked)
	}
	return n, nil
}

// steady follows a number in Redis that may become smaller, when Redis forgets something or is
// emptied. It never does itself: Prometheus would take that for a new beginning, and count all of
// the number again.
type steady struct {
	mu          sync.Mutex
	last, total int64
}

func (s *steady) follow(n int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total += max(n-s.last, 0)
	s.last = n
	return s.total
}
