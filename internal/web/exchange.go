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
	if counted, ok := w.(*countedWriter); ok {
		w = counted.ResponseWriter // which closes the connection when it is too large
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, max))
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, ErrTooLarge
	}
	return body, err
}

// toTheEnd is the context that a request is served with. It has a time limit of its own, and does
// not end with the connection: who closes that without waiting for the answer has asked all the same,
// and who closes his side of it waits for the answer. The two can't be told apart.
func toTheEnd(r *http.Request) (context.Context, context.CancelFunc) {
	ctx := context.WithValue(context.WithoutCancel(r.Context()), clientKey{}, r.Context())
	return context.WithTimeout(ctx, exchangeTimeout)
}

// clientKey is where such a context has the one that ends with the connection.
type clientKey struct{}

// withClient is the request with a context that ends with the connection.
func withClient(r *http.Request) *http.Request {
	if ctx, ok := r.Context().Value(clientKey{}).(context.Context); ok {
		return r.WithContext(ctx)
	}
	return r
}

// ErrStopping is the cause of a Poll's or Long's context when the front stops.
var ErrStopping = errors.New("the front stops")

// Long is the context of a request that may take so long, instead of the usual time. It ends when that
// is over (context.DeadlineExceeded), or the front stops (ErrStopping); context.Cause tells which. The
// body must have been read. From the cancel on the answer has the time of any other.
func Long(w http.ResponseWriter, r *http.Request, most time.Duration) (context.Context, context.CancelFunc) {
	return long(context.WithoutCancel(r.Context()), w, most)
}

// Brief is Long for what takes no more than the usual time, at less cost.
func Brief(r *http.Request, most time.Duration) (context.Context, context.CancelFunc) {
	return bounded(r.Context(), most)
}

// Poll is Long for a detached request that waits: its context also ends when the client hangs up
// (context.Canceled). In the other cases the client is there for an answer.
func Poll(w http.ResponseWriter, r *http.Request, wait time.Duration) (context.Context, context.CancelFunc) {
	return long(r.Context(), w, wait)
}

func long(ctx context.Context, w http.ResponseWriter, most time.Duration) (context.Context, context.CancelFunc) {
	c := http.NewResponseController(w)
	c.SetReadDeadline(time.Time{})
	c.SetWriteDeadline(time.Now().Add(most + exchangeTimeout))
	ctx, cancel := bounded(ctx, most)
	return ctx, func() {
		cancel()
		c.SetWriteDeadline(time.Now().Add(exchangeTimeout))
	}
}

// bounded is a context that ends when the time is over, or the front stops.
func bounded(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancelCause(ctx)
	// A context with a deadline beside that would take 1 KB more, of each of thousands.
	over := time.AfterFunc(most, func() { stop(context.DeadlineExceeded) })
	release := func() bool { return true }
	if front, ok := ctx.Value(frontKey{}).(*Front); ok {
		release = context.AfterFunc(front.stopping, func() { stop(ErrStopping) })
	}
	return ctx, func() {
		release()
		over.Stop()
		stop(nil)
	}
}
