// Package operator is what an operator sees and does: numbers, a look at jobs and
// dead letters, and the clearing of what has gone wrong. Nothing here costs Redis more
// than about 2 ms at a time, however many jobs there are; what takes longer is done in
// steps, between which Redis serves others.
//
// All of it is for one moment only: jobs come and go between the steps.
package operator

import (
	"cmp"

	"github.com/gomodule/redigo/redis"
	"github.com/mix-basic/delayer/internal/store"
)

// Operator sees and does it for all jobs of one prefix. It is safe for concurrent use.
type Operator struct {
	partitions store.Partitions
	most       int // topics of each partition that a Snapshot counts
	snapshots  *Shared[Snapshot]
	schedules  *Shared[ScheduleStates]
	strays     strays
}

// New makes an Operator on a pool of the caller's. prefix is what the name of every key
// begins with; empty, it is "delayer:".
func New(pool *redis.Pool, prefix string, l store.Layout) *Operator {
	o := &Operator{partitions: l.Open(pool, cmp.Or(prefix, store.DefaultPrefix)), most: MostTopics}
	o.snapshots, o.schedules = NewShared(snapshotTimeout, o.snapshot), NewShared(snapshotTimeout, o.ScheduleStates)
	return o
}
