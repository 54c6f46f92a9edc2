package client

import (
	"context"
	"errors"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
)

// maxElsewhere is how many other nodes a push without an ID tries, each of which may take redisconn.RetryWindow.
const maxElsewhere = 2

// pushNew pushes a job whose ID the Client made. If it is certain that nothing was stored, it tries IDs of jobs on
// other nodes. After a lost reply the job may be stored, and another ID would store it twice.
func (c *Client) pushNew(ctx context.Context, pushes *batch.Batcher[store.Delayed], job *store.Delayed) error {
	err := pushes.Do(ctx, c.fleet.Of(job.ID), *job)
	for tried := map[string]bool{}; mayTryElsewhere(ctx, err) && len(tried) < maxElsewhere; {
		addr, unknown := c.fleet.Of(job.ID).Addr(ctx)
		tried[addr] = true
		id := c.fleet.NewIDElsewhere(ctx, tried)
		if unknown != nil || id == "" {
			break
		}
		job.ID = id
		err = pushes.Do(ctx, c.fleet.Of(job.ID), *job)
	}
	return err
}

// mayTryElsewhere reports whether nothing was stored, and another node may take the job. A stored job's error says why it is not known whether replicas have
// it, which looks like a refusal of the job, if Redis was busy then.
func mayTryElsewhere(ctx context.Context, err error) bool {
	return !isStored(err) && batch.IsNotDone(err) && store.Temporary(err) && !errors.Is(err, ErrClosed) && ctx.Err() == nil
}
