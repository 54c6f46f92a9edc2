package metrics

import (
	"context"
	"sync"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/inspect"
)

// numbers are the values read from Redis; an unreadable one is inspect.Unknown.
type numbers struct {
	inspect.Counts
	pauses    inspect.Pauses
	schedules inspect.ScheduleStates // Overdue is negative if unreadable
	paused    int                    // paused topics; inspect.Unknown if unreadable
	servers   int                    // running servers
	strays    []fleet.Stray          // jobs outside the current partitions
	acked     int64                  // in total, as Redis counts
}

// numbers combines the readings.
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

// steady turns a number that may go back, because Redis lost it, into one that never does: Prometheus would
// take that for a restart and count everything again.
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
