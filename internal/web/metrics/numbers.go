package metrics

import (
	"context"
	"slices"
	"sync"

	"github.com/mix-basic/delayer/internal/operator"
	"github.com/mix-basic/delayer/internal/store"
)

// numbers are what one look at Redis finds. One that can't be read is operator.Unknown.
type numbers struct {
	operator.Counts
	pauses    operator.Pauses
	schedules operator.ScheduleStates // with an Overdue below 0 if they can't be read
	paused    int                     // topics; operator.Unknown if they can't be read
	servers   int                     // that run
	acked     int64                   // since the first look and before
}

// readNumbers makes what reads them, of so many topics at most, one look after the other.
func readNumbers(op *operator.Operator, topics int) func(context.Context) (numbers, error) {
	var all steady
	return func(ctx context.Context) (n numbers, err error) {
		n.servers, n.acked, n.paused = operator.Unknown, operator.Unknown, operator.Unknown
		n.schedules = operator.ScheduleStates{Active: operator.Unknown, Paused: operator.Unknown, Ended: operator.Unknown, Overdue: operator.Unknown}
		var others sync.WaitGroup
		others.Go(func() {
			if servers, err := op.Servers(ctx); err == nil {
				n.servers = len(slices.DeleteFunc(servers, store.ServerState.Stale))
			}
			if pauses, err := op.Paused(ctx); err == nil {
				n.pauses, n.paused = pauses, len(pauses)
			}
			if schedules, err := op.ScheduleStates(ctx); err == nil {
				n.schedules = schedules
			}
			if acked, err := op.Acked(ctx); err == nil {
				n.acked = all.follow(acked)
			}
		})
		n.Counts, err = op.CountsOfLast(ctx, topics)
		others.Wait()
		return n, err
	}
}

// steady follows a number in Redis that may become smaller, when Redis forgets something or is
// emptied. It never does itself: Prometheus would take that for a new beginning, and count all of
// the number again.
type steady struct{ last, total int64 }

func (s *steady) follow(n int64) int64 {
	s.total += max(n-s.last, 0)
	s.last = n
	return s.total
}
