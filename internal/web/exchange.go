package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"
)

// ErrTooLarge is returned for a body that is larger than it may be.
var ErrTooLarge = errors.New("the body is too large")

// ReadBody reads a request's body, of max bytes at most; beyond that it fails with ErrTooLarge.
func ReadBody(w http.ResponseWriter, r *http.Request, max int64) ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, max))
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, ErrTooLarge
	}
	return body, err
}

// ErrStopping is the cause of a Poll's context when the front stops.
var ErrStopping = errors.New("the front stops")

// Poll is the context of a request that waits, for so long at most. It ends when the time is over
// (context.DeadlineExceeded), the front stops (ErrStopping), or the client hangs up (context.Canceled);
// context.Cause tells which. In the first two cases the client is there for an answer. The body must
// have been read. From the cancel on the answer has the time of any other.
func Poll(w http.ResponseWriter, r *http.Request, wait time.Duration) (context.Context, context.CancelFunc) {
	c := http.NewResponseController(w)
	c.SetReadDeadline(time.Time{}) // it would end r's context
	c.SetWriteDeadline(time.Now().Add(wait + exchangeTimeout))
	ctx, stop := context.WithCancelCause(r.Context())
	// A context with a deadline beside that would take 1 KB more, of each of thousands.
	over := time.AfterFunc(wait, func() { stop(context.DeadlineExceeded) })
	release := func() bool { return true }
	if front, ok := r.Context().Value(frontKey{}).(*Front); ok {
		release = context.AfterFunc(front.stopping, func() { stop(ErrStopping) })
	}
	return ctx, func() {
		release()
		over.Stop()
		stop(nil)
		c.SetWriteDeadline(time.Now().Add(exchangeTimeout))
	}
}
