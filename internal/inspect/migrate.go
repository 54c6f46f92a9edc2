package inspect

import (
	"context"
	"errors"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
	"github.com/mix-basic/delayer/internal/redisconn"
	"github.com/mix-basic/delayer/internal/store"
)

// Migration is the progress of a migration.
type Migration = fleet.Migrated

// ErrReserved is returned by a migration that does not wait: some jobs are reserved, and stay until they are ready again or gone.
var ErrReserved = errors.New("jobs are reserved")

// A migration continues after an outage shorter than retryWindow. It checks reserved jobs again soon, and then less and
// less often.
const (
	retryWindow            = time.Minute
	firstWait, longestWait = 100 * time.Millisecond, 10 * time.Second
)

// Migrate moves all jobs and dead letters from old partitions to where they belong, batch by batch, and reports its
// progress. Jobs are pushed, taken and settled meanwhile. It can be stopped at any point and started again, also by several programs. It
// records in Redis that nothing is left, and returns. It waits for reserved jobs, or returns ErrReserved if it must not wait.
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
		case !began || !store.Temporary(err) || ctx.Err() != nil || time.Since(worked) > retryWindow:
			return sum, err
		}
		if !pause.Wait(ctx, firstWait, longestWait) {
			return sum, ctx.Err()
		}
	}
}
