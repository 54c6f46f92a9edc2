package store

import (
	"context"
	"errors"
	"sync/atomic"
)

// ErrNotAdmitted is what an Admission refuses a program with for good.
var ErrNotAdmitted = errors.New("not admitted")

// Admission decides, before the first connection of the stores that share it, whether the program may work with them.
type Admission struct {
	ask  func(ctx context.Context) (lasting bool, err error)
	done atomic.Bool
	turn chan struct{} // full while somebody asks
}

// NewAdmission makes one that is decided by ask, of which one call is under way at a time. Once it has reported that the answer is lasting it is
// not called again.
func NewAdmission(ask func(ctx context.Context) (lasting bool, err error)) *Admission {
	return &Admission{ask: ask, turn: make(chan struct{}, 1)}
}

// Pass returns nil if the program is admitted, else why it is not, or can't be yet.
func (a *Admission) Pass(ctx context.Context) error {
	if a.done.Load() {
		return nil
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if a.done.Load() {
		return nil
	}
	lasting, err := a.ask(ctx)
	a.done.Store(lasting)
	return err
}
