package server

import (
	"context"
	"time"
)

// transitsEvery is how often a server checks for jobs left in transit between partitions by a program that died. A healthy
// program completes a transit within milliseconds.
const transitsEvery = 5 * time.Second

// finishTransits completes such transits while there are old partitions.
func (s *Server) finishTransits(ctx, work context.Context) {
	outages := newOutages(s.log)
	copied := false
	for tick := time.NewTicker(transitsEvery); ; {
		copied = copied || s.copyPauses(work, outages)
		err := s.fleet.FinishTransits(work)
		outages.reportMinor("Jobs in transit from an old partition cannot be delivered", err, false)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
