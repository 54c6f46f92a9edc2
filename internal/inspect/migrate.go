package inspect

import (
	"context"
	"errors"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// Migration is how far a migration is.
type Migration = fleet.Migrated

// ErrReserved is returned by a migration that does not wait: jobs are reserved, and stay until they are ready again, or gone.
var ErrReserved = errors.New("jobs are reserved")

// A migration goes on after an outage, if that lasts for less than rideOut. It looks for jobs that were reserved soon, and ever
// less often.
const (
	rideOut                = time.Minute
	firstWait, longestWait = 100 * time.Millisecond, 10 * time.Second
)

// Migrate moves all jobs and dead letters from the partitions of before to those where they belong, a batch at a time, and tells how far
// it is. Others push, take and settle them all the while. It may be stopped at any point, and begun anew, be it by several. It
// returns when nothing is left, having told Redis so; jobs that are reserved are waited for, or, if it must not wait, are ErrReserved.
func (o *Inspector) Migrate(ctx context.Context, wait bool, tell func(Migration)) (sum Migration, err error) {
	began, worked := false, time.Now()
	var pause redisconn.Backoff
	for {
		earlier := sum.Adopted
		done, err := o.fleet.Migrate(ctx, func(m Migration) {
			began, worked = true, time.Now()
			sum = m
			sum.Stored, sum.Superseded = sum.Stored+earlier.Stored, sum.Superseded+earlier.Superseded
			tell(sum)
		})
		switch {
		case err == nil && done:
			sum.Left = 0
			return sum, o.fleet.MigrationDone(ctx)
		case err == nil:
			worked = time.Now()
			if sum.Reserved > 0 && !wait {
				return sum, ErrReserved
			}
			if sum.Adopted != earlier {
				pause = 0
			}
		case !began || !store.Temporary(err) || ctx.Err() != nil || time.Since(worked) > rideOut:
			return sum, err
		}
		if !pause.Wait(ctx, firstWait, longestWait) {
			return sum, ctx.Err()
		}
	}
}
