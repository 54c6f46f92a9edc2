package metrics

import (
	"context"
	"sync"

	"github.com/mix-basic/delayer/internal/operator"
	"github.com/mix-basic/delayer/internal/store"
)

// numbers are what one look at Redis finds. One that can't be read is operator.Unknown.
type numbers struct {
	operator.Counts
	servers int   // that run
	acked   int64 // since the first look and before
}

// reader reads numbers, one after the other.
type reader struct {
	operator *operator.Operator
	topics   int // at how many it looks, at most
	acked    steady
}

func (r *reader) read(ctx context.Context) (n numbers, err error) {
	n.servers, n.acked = operator.Unknown, operator.Unknown
	var others sync.WaitGroup
	others.Go(func() {
		if servers, err := r.operator.Servers(ctx); err == nil {
			n.servers = running(servers)
		}
		if acked, err := r.operator.Acked(ctx); err == nil {
			n.acked = r.acked.follow(acked)
		}
	})
	n.Counts, err = r.operator.CountsOfLast(ctx, r.topics)
	others.Wait()
	return n, err
}

func running(servers []store.ServerState) int {
	n := 0
	for _, s := range servers {
		if !s.Stale() {
			n++
		}
	}
	return n
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
