package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/mix-basic/delayer/internal/store"
)

// ErrTooLarge means that a request's body exceeds its limit.
var ErrTooLarge = errors.New("the body is too large")

// ReadBody reads a request's body. A body of more than max bytes fails with ErrTooLarge.
func ReadBody(w http.ResponseWriter, r *http.Request, max int64) ([]byte, error) {
	if counted, ok := w.(*countedWriter); ok {
		w = counted.ResponseWriter // lets MaxBytesReader close the connection
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, max))
	if errors.As(err, new(*http.MaxBytesError)) {
		return nil, ErrTooLarge
	}
	return body, err
}

// Write answers a request; a nil body means no body. A nil error means that the answer was written, not that
// it arrived.
func Write(w http.ResponseWriter, status int, contentType string, body []byte) error {
	if body != nil {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	_, err := w.Write(body)
	if flushed := http.NewResponseController(w).Flush(); err == nil {
		err = flushed
	}
	return err
}

// exchangeContext is the context of a request. It has its own time limit and outlives the connection: a
// client that closed the connection without waiting still meant its request, and one that closed only its
// side (half-closed) still reads the answer. The two look the same.
type exchangeContext struct {
	context.Context // ends at the time limit
	client          client
	undated         bool
}

// client is what an exchangeContext knows about its client.
type client struct {
	connected context.Context // ends with the connection
	admitted  bool
}

// newExchange creates the context of a request.
func (s *Server) newExchange(r *http.Request, admitted bool) (exchangeContext, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), exchangeTimeout)
	t := s.options.RedisTimeout
	return exchangeContext{ctx, client{r.Context(), admitted}, t > 0 && t <= maxRedisTimeout}, cancel
}

// maxRedisTimeout leaves time for several calls that time out.
const maxRedisTimeout = exchangeTimeout / 3

// Deadline reports no deadline if Redis's own timeouts end a call early enough. A call without a deadline
// runs in the caller's goroutine; one with a deadline needs another goroutine, so that the caller can give
// up.
func (e exchangeContext) Deadline() (time.Time, bool) {
	if e.undated {
		return time.Time{}, false
	}
	return e.Context.Deadline()
}

// Value returns the client for clientKey.
func (e exchangeContext) Value(key any) any {
	if key == (clientKey{}) {
		return e.client
	}
	return e.Context.Value(key)
}

type clientKey struct{}

func clientOf(r *http.Request) client {
	if c, ok := r.Context().Value(clientKey{}).(client); ok {
		return c
	}
	return client{connected: r.Context()}
}

// Admitted reports whether a client of an open area could also use the protected ones.
func Admitted(r *http.Request) bool { return clientOf(r).admitted }

// ErrStopping is the cause of a cancelled Long or Wait context when the server is shutting down.
var ErrStopping = errors.New("the server is stopping")

// Long returns a context for a request that may take up to most. It ends then (context.DeadlineExceeded) or
// when the server stops (ErrStopping); see context.Cause. Read the body first. After cancel the answer has
// the usual time to be written.
func Long(w http.ResponseWriter, r *http.Request, most time.Duration) (context.Context, context.CancelFunc) {
	return long(context.WithoutCancel(r.Context()), w, most)
}

// MaxWaiting is how many requests may Wait at a time, at about 26 KB each. HTTP/2 clients can send many
// requests per connection, so a limit on connections is not enough.
const MaxWaiting = MaxConns

// ErrCrowded is returned by Wait when MaxWaiting requests are already waiting.
var ErrCrowded = errors.New("too many requests wait for a job")

// Wait calls wait with a Long context that also ends when the client is Gone (context.Canceled).
func Wait(w http.ResponseWriter, r *http.Request, most time.Duration, wait func(context.Context) error) error {
	waiting := &serverOf(r.Context()).counter.waiting
	defer waiting.Add(-1)
	if waiting.Add(1) > MaxWaiting {
		return ErrCrowded
	}
	ctx, cancel := long(clientOf(r).connected, w, most)
	defer cancel()
	return wait(ctx)
}

// Gone reports whether the client is known to have closed its connection or its side of it, so that a job is
// not handed to nobody. That is noticed once the body has been read, and not behind another request that the
// client has already sent.
func Gone(r *http.Request) bool { return clientOf(r).connected.Err() != nil }

func long(ctx context.Context, w http.ResponseWriter, most time.Duration) (context.Context, context.CancelFunc) {
	c := http.NewResponseController(w)
	c.SetReadDeadline(time.Time{})
	c.SetWriteDeadline(time.Now().Add(most + exchangeTimeout))
	ctx, cancel := Brief(ctx, most)
	return ctx, func() {
		cancel()
		c.SetWriteDeadline(time.Now().Add(exchangeTimeout))
	}
}

// Brief is a cheaper Long for work that fits in the usual time; ctx is a request's context.
func Brief(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	ctx, over := context.WithTimeout(ctx, most)
	ctx, stop := context.WithCancelCause(ctx)
	release := context.AfterFunc(serverOf(ctx).stopping, func() { stop(ErrStopping) })
	return ctx, func() {
		release()
		stop(nil)
		over()
	}
}

// Trouble is what a client is told of an error that is not its fault. Redis's own words are for the log: they may name keys and users.
func Trouble(err error) string {
	switch store.KindOf(err) {
	case store.OutOfMemory:
		return "nothing was stored: Redis is out of memory"
	case store.Denied:
		return "the daemon lacks a permission; its log has the details"
	case store.WrongType, store.OtherAnswer:
		return "a key has the wrong type, or Redis has another problem; the daemon's log has the details"
	}
	return "Redis can't be reached, does not reply, or accepts no writes now; it is unknown whether a change was made"
}
