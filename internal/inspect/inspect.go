// Package inspect is what operators see and do: counts,
// pages of jobs, forecasts, dead letters. Nothing here blocks Redis for more than
// about 2 ms at a time, however many jobs there are: longer work is done in steps,
// between which Redis serves others. The result of several steps is
// therefore not a snapshot: jobs come and go in between.
package inspect

import (
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
)

// Inspector inspects the jobs of one prefix. It is safe for concurrent use.
type Inspector struct {
	fleet     *fleet.Fleet
	most      int // the most topics of each partition that a Snapshot counts
	snapshots *Shared[Snapshot]
	schedules *Shared[ScheduleStates]
	soon      *Shared[map[string]int]
	patience  time.Duration // for one of several partitions
}

// New returns an Inspector for these jobs.
func New(jobs *fleet.Fleet) *Inspector {
	o := &Inspector{fleet: jobs, most: MostTopics, patience: partitionPatience}
	o.snapshots, o.schedules = NewShared(snapshotTimeout, o.snapshot), NewShared(snapshotTimeout, o.ScheduleStates)
	o.soon = NewShared(snapshotTimeout, o.dueSoon)
	return o
}
