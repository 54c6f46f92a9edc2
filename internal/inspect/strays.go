package inspect

import (
	"context"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
)

// strayEvery is how often Redis is checked for stray jobs, for all callers.
const strayEvery = 20 * time.Second

// strays are the stray jobs that the last check found.
type strays struct {
	mu      sync.Mutex
	at      time.Time
	looking bool
	found   []fleet.Stray
}

// Strays returns the stray jobs, as of at most strayEvery ago. During a check, and if it fails, the result of the last check
// counts.
func (o *Inspector) Strays(ctx context.Context) []fleet.Stray {
	s := &o.strays
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looking || !s.at.IsZero() && time.Since(s.at) < strayEvery {
		return s.found
	}
	s.looking = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, partitionPatience)
	found, err := o.fleet.Strays(ctx)
	cancel()
	s.mu.Lock()
	s.looking, s.at = false, time.Now()
	if err == nil {
		s.found = found
	}
	return s.found
}
