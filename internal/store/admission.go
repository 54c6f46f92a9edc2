package store

import (
	"context"
	"sync/atomic"
)

// ErrNotAdmitted is the error of an Admission that refuses a program for good.
const ErrNotAdmitted Error = "not admitted"

// Admission decides, before the first connection of the stores that share it, whether the program may use them.
type Admission struct {
	ask   func(ctx context.Context) (lasting bool, err error)
	done  atomic.Bool
	asked singleFlight
}

// NewAdmission returns an Admission that calls ask, one call at a time, until ask reports a final answer.
func NewAdmission(ask func(ctx context.Context) (lasting bool, err error)) *Admission {
	return &Admission{ask: ask}
}

// Pass returns nil if the program is admitted, else the reason why it is not, or not yet.
func (a *Admission) Pass(ctx context.Context) error {
	if a.done.Load() {
		return nil
	}
	return a.asked.Do(ctx, func() error {
		if a.done.Load() {
			return nil
		}
		lasting, err := a.ask(ctx)
		a.done.Store(lasting)
		return err
	})
}
