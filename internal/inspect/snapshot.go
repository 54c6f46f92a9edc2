package inspect

import (
	"context"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// Snapshot is what metrics and the dashboard tell of the whole Redis at a moment.
type Snapshot struct {
	Counts
	Pauses     Pauses
	PausesErr  error // why they can't be read
	Servers    []store.ServerState
	ServersErr error // why they can't be read
	Acked      int64 // jobs that were ever acknowledged; Unknown if that can't be read of some partition
	AckedErr   error // why
	Strays     []fleet.Stray
}

// snapshotTimeout bounds one read of a Snapshot. Of several partitions those that do not answer have failed long before.
const snapshotTimeout = 3 * time.Second

// CountTopics has Snapshots count so many topics of each partition, if that is more than MostTopics. It is to be called before the first.
func (o *Inspector) CountTopics(n int) { o.most = max(n, MostTopics) }

// Snapshot is one that is being read, or that was begun no longer ago than maxAge, else a new one: all who ask share it.
func (o *Inspector) Snapshot(maxAge time.Duration) *Reading[Snapshot] {
	return o.snapshots.Current(maxAge)
}

// RecentScheduleStates is ScheduleStates, shared in the same way.
func (o *Inspector) RecentScheduleStates(maxAge time.Duration) *Reading[ScheduleStates] {
	return o.schedules.Current(maxAge)
}

// snapshot reads one. A partition that does not answer is asked once, for all of it.
func (o *Inspector) snapshot(ctx context.Context) (s Snapshot, err error) {
	failed := o.none()
	if s.Counts, err = o.countsOfLast(ctx, failed, o.most); err != nil {
		return Snapshot{}, err
	}
	s.Pauses, s.PausesErr = o.paused(ctx, failed)
	s.Strays = o.Strays(ctx)
	s.Servers, s.ServersErr = o.servers(ctx, failed)
	if s.Acked, s.AckedErr = o.acked(ctx, failed); s.AckedErr != nil {
		s.Acked = Unknown
	}
	return s, nil
}
