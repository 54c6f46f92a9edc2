package inspect

import (
	"context"
	"sync"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
)

// strayEvery is how often anybody looks for stray jobs, whoever asks for them.
const strayEvery = 20 * time.Second

// strays are those that were found when somebody last looked.
type strays struct {
	mu      sync.Mutex
	at      time.Time
	looking bool
	found   []fleet.Stray
}

// Strays are the jobs that nobody looks for, of strayEvery ago at most. While somebody looks, and where that fails, they are those of the
// last time.
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
