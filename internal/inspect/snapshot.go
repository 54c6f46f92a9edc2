package inspect

import (
	"context"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// Overview is what is looked at first. Each part has its own error.
type Overview struct {
	Counts
	CountsErr  error // why nothing is counted; see Broken for some of several partitions
	Pauses     Pauses
	PausesErr  error // why they cannot be read
	Servers    []store.ServerState
	ServersErr error // why they cannot be read
}

// Snapshot is what metrics and the dashboard show of the whole Redis at one time. It has counts.
type Snapshot struct {
	Overview
	Acked    int64 // jobs that were ever acknowledged; Unknown if some partition cannot be read
	AckedErr error // why
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

// Overview reads one.
func (o *Inspector) Overview(ctx context.Context) Overview { return o.overview(ctx, o.none()) }

// overview adds to failed. A partition that does not respond is asked only once.
func (o *Inspector) overview(ctx context.Context, failed failures) (v Overview) {
	v.Counts, v.CountsErr = o.countsOfLast(ctx, failed, o.most)
	away := failed.away()
	v.Pauses, v.PausesErr = o.paused(ctx, away)
	v.Servers, v.ServersErr = o.servers(ctx, away)
	return v
}

// snapshot reads one.
func (o *Inspector) snapshot(ctx context.Context) (s Snapshot, err error) {
	failed := o.none()
	if s.Overview = o.overview(ctx, failed); s.CountsErr != nil {
		return Snapshot{}, s.CountsErr
	}
	if s.Acked, s.AckedErr = o.acked(ctx, failed); s.AckedErr != nil {
		s.Acked = Unknown
	}
	return s, nil
}
