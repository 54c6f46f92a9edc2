package async

import (
	"context"
	"time"
)

// OutputWait is how long a program that is interrupted or done waits for its output to be read.
const OutputWait = time.Second

// Briefly is AtMost for what must not delay the work, or the daemon's stop.
func Briefly(f func()) { AtMost(FlushWait, f) }

// AtMost runs f, but stops waiting for it after some time. Printing blocks if nobody reads the output.
func AtMost(wait time.Duration, f func()) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	Await(ctx, func() error { f(); return nil })
}

// Await waits for f, which takes no context, until ctx is done.
func Await(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
