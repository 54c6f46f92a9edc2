package server

import (
	"context"
	"fmt"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// dropDeadEvery is how often it is looked for dead letters that are too old or too many.
const dropDeadEvery = time.Minute

// dropDead drops the dead letters that are too old or too many, if that was not done lately.
func (m *mover) dropDead(ctx context.Context) {
	if m.deadMaxAge == 0 && m.deadMax == 0 || time.Since(m.droppedDead) < dropDeadEvery {
		return
	}
	m.droppedDead = time.Now()
	var err error
	for more := true; more && err == nil && ctx.Err() == nil; {
		more, err = m.dropSomeDead(ctx)
	}
	if err == nil || !store.Temporary(err) { // else the next pass says so
		m.outages.report("dead", "Old dead letters can't be dropped", err)
	}
}

func (m *mover) dropSomeDead(ctx context.Context) (more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, batchWait)
	defer cancel()
	age := m.deadMaxAge
	if age == 0 {
		age = never
	}
	dropped, more, err := m.store.ExpireDead(ctx, age, m.deadMax)
	for _, d := range dropped {
		m.log.InfoJobs(fmt.Sprintf("Dead letters dropped, %d too old or too many", len(d.IDs)), d.Topic, bytesOf(d.IDs))
	}
	return more && len(dropped) > 0, err
}

// never is an age that no dead letter has.
const never = 100 * 365 * 24 * time.Hour
