package inspect

import (
	"context"
	"time"

	"github.com/mix-basic/delayer/internal/fleet"
)

// strayEvery is how often Redis is checked for stray jobs, for all callers.
const strayEvery = 20 * time.Second

// Strays returns the stray jobs, as of at most strayEvery ago. If the check fails, the result of the last one counts.
func (o *Inspector) Strays(ctx context.Context) []fleet.Stray {
	found, _ := o.strays.Current(strayEvery).Wait(ctx)
	return found
}

// checkStrays returns a function that checks for stray jobs and keeps the last result. It must not be called twice at a time.
func (o *Inspector) checkStrays() func(context.Context) ([]fleet.Stray, error) {
	var last []fleet.Stray
	return func(ctx context.Context) ([]fleet.Stray, error) {
		if found, err := o.fleet.Strays(ctx); err == nil {
			last = found
		}
		return last, nil
	}
}
