package inspect

import (
	"context"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/store"
)

// Snapshot is what metrics and the dashboard show of the whole Redis at one time.
type Snapshot struct {
	Counts
	Pauses     Pauses
	PausesErr  error // why they cannot be read
	Servers    []store.ServerState
	ServersErr error // why they cannot be read
	Acked      int64 // jobs that were ever acknowledged; Unknown if some partition cannot be read
	AckedErr   error // why
	Strays     []fleet.Stray
}

// snapshotTimeout bounds one read of a Snapshot. Partitions that do not answer fail long before that.
const snapshotTimeout = 3 * time.Second

// CountTopics makes Snapshots count that many topics of each partition, if that is more than MostTopics. Call it before the first Snapshot.
func (o *Inspector) CountTopics(n int) { o.most = max(n, MostTopics) }

// Snapshot returns a Snapshot that began at most maxAge ago, or else a new one; all callers share it.
func (o *Inspector) Snapshot(maxAge time.Duration) *Reading[Snapshot] {
	return o.snapshots.Current(maxAge)
}

// RecentScheduleStates is ScheduleStates, shared in the same way.
func (o *Inspector) RecentScheduleStates(maxAge time.Duration) *Reading[ScheduleStates] {
	return o.schedules.Current(maxAge)
}

// snapshot reads one. A partition that does not answer is asked only once.
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
