package server

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// dropDeadEvery is how often it is looked for dead letters that are too old or too many.
const dropDeadEvery = time.Minute

// deadTurn is for how long that is done at a time. Then due jobs are moved, and it goes on behind that.
const deadTurn = 10 * time.Millisecond

// goOnSoon is after how long at the latest it goes on.
const goOnSoon = 20 * time.Millisecond

// deadSweep is a look at all dead letters, page by page.
type deadSweep struct {
	began time.Time       // the last one
	at    store.DeadPlace // how far it has got; zero when it is done
	err   error           // the first one
}

// underWay reports whether the sweep is to go on.
func (d *deadSweep) underWay() bool { return d.at != (store.DeadPlace{}) }

// dropDead drops some of the dead letters that are too old or too many, if all of that was not done lately.
func (m *mover) dropDead(ctx context.Context) {
	if m.deadMaxAge == 0 && m.deadMax == 0 || !m.dead.underWay() && time.Since(m.dead.began) < dropDeadEvery {
		return
	}
	started := time.Now()
	if !m.dead.underWay() {
		m.dead = deadSweep{began: started}
	}
	for again := true; again; again = m.dead.underWay() && ctx.Err() == nil && time.Since(started) < deadTurn {
		m.dropSomeDead(ctx)
	}
	if err := m.dead.err; !m.dead.underWay() && (err == nil || !store.Temporary(err)) { // else the next pass says so
		m.outages.report("dead", "Old dead letters can't be dropped", err)
	}
}

// dropAllDead is dropDead for all of them, now.
func (m *mover) dropAllDead(ctx context.Context) {
	m.dead = deadSweep{}
	for again := true; again; again = m.dead.underWay() && ctx.Err() == nil {
		m.dropDead(ctx)
	}
}

// dropSomeDead looks at a page of topics.
func (m *mover) dropSomeDead(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, batchWait)
	defer cancel()
	age := m.deadMaxAge
	if age == 0 {
		age = never
	}
	dropped, next, err := m.store.ExpireDead(ctx, age, m.deadMax, m.dead.at)
	for _, d := range dropped {
		logJobs(m.log, slog.LevelInfo, fmt.Sprintf("Dead letters dropped, %d too old or too many", len(d.IDs)), d.Topic, d.IDs)
	}
	m.dead.at, m.dead.err = next, cmp.Or(m.dead.err, err)
}

// never is an age that no dead letter has.
const never = 100 * 365 * 24 * time.Hour
