// Package inspect is what an operator sees of the jobs, and does to them: counts,
// pages of jobs, forecasts, dead letters. Nothing here blocks Redis for more than
// about 2 ms at a time, however many jobs there are: what takes longer goes in steps,
// between which Redis serves others. What a call of several steps returns is
// therefore no snapshot: jobs come and go between the steps.
package inspect

import (
	"cmp"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// Inspector does it for all jobs of one prefix. It is safe for concurrent use.
type Inspector struct {
	fleet     *fleet.Fleet
	most      int // topics of each partition that a Snapshot counts
	snapshots *Shared[Snapshot]
	schedules *Shared[ScheduleStates]
	strays    strays
}

// New makes an Inspector of the jobs in that Redis. prefix is what the name of every key
// begins with; empty, it is "delayer:".
func New(r redisconn.Redis, prefix string, l fleet.Layout) *Inspector {
	o := &Inspector{fleet: l.Open(r, cmp.Or(prefix, store.DefaultPrefix)), most: MostTopics}
	o.snapshots, o.schedules = NewShared(snapshotTimeout, o.snapshot), NewShared(snapshotTimeout, o.ScheduleStates)
	return o
}
