package server

import (
	"context"
	"time"
)

// asideEvery is how often a server looks for jobs that somebody has set aside on their way to another partition, and
// then died. Whoever is well finishes that in a few ms.
const asideEvery = 5 * time.Second

// finishAside sends such jobs on, as long as there are partitions of before.
func (s *Server) finishAside(ctx, work context.Context) {
	outages := newOutages(s.log)
	copied := false
	for tick := time.NewTicker(asideEvery); ; {
		copied = copied || s.copyPauses(work, outages)
		err := s.partitions.FinishAside(work)
		outages.aside("Jobs that are on their way from a partition of before can't be sent on", err, false)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
