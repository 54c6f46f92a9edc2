package client

import (
	"context"
	"errors"
	"time"

	"github.com/mix-basic/delayer/internal/batch"
	"github.com/mix-basic/delayer/internal/store"
)

// The Client makes the ID of a push without one, and so chooses its partition. While a node of a cluster is away it makes IDs that
// belong to partitions of other nodes.

// shunFor is how long the Client makes no IDs for a node that did not answer. That costs nothing if the node is
// back earlier.
const shunFor = 30 * time.Second

// maxElsewhere is how many other nodes a push tries, each of which may take redisconn.RetryWindow.
const maxElsewhere = 2

// wellID returns a new ID of a partition whose node is not shunned, or false if all are.
func (c *Client) wellID() (id string, found bool) {
	well := make([]bool, c.fleet.Layout.Partitions)
	for i := range well {
		well[i] = !c.fleet.Stores[i].Node().IsShunned()
		found = found || well[i]
	}
	if !found {
		return "", false
	}
	for id = store.NewID(); !well[store.PartitionOf(id, len(well))]; {
		id = store.NewID()
	}
	return id, true
}

// pushNew pushes a job whose ID the Client made, and may change that ID.
func (c *Client) pushNew(ctx context.Context, pushes *batch.Batcher[store.Delayed], job *store.Delayed) error {
	c.chooseID(job)
	err := pushes.Do(ctx, c.fleet.Of(job.ID), *job)
	if err != nil && !isStored(err) {
		err = c.pushElsewhere(ctx, pushes, job, err)
	}
	return err
}

// chooseID replaces a job's ID that the Client made if its node is shunned and others are not.
func (c *Client) chooseID(job *store.Delayed) {
	if len(c.fleet.Stores) == 1 || !c.fleet.Of(job.ID).Node().IsShunned() {
		return
	}
	if id, found := c.wellID(); found {
		job.ID = id
	}
}

// pushElsewhere continues after a failed push of a job whose ID the Client made. If it is certain that nothing was
// stored, the job is pushed with an ID of another node. After a lost reply it may be stored, and another ID would
// store it twice.
func (c *Client) pushElsewhere(ctx context.Context, pushes *batch.Batcher[store.Delayed], job *store.Delayed, err error) error {
	for tries := 0; err != nil && len(c.fleet.Stores) > 1 && ctx.Err() != context.Canceled && store.Temporary(err) && !errors.Is(err, ErrClosed); tries++ {
		c.fleet.Of(job.ID).Node().Shun(shunFor)
		id, found := c.wellID()
		if !found || tries == maxElsewhere || !batch.IsNotDone(err) || ctx.Err() != nil {
			return err
		}
		job.ID = id
		err = pushes.Do(ctx, c.fleet.Of(id), *job)
	}
	return err
}
