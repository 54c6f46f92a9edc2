package web

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
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

// Write answers a request; a nil body is none at all. Without an error all of it is written, whether it
// arrives or not.
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

// exchangeContext is the context that a request is served with. It has a time limit of its own, and does
// not end with the connection: a client that closes it without waiting for the answer has sent its request all
// the same, and one that closes its own side waits for the answer. The two can't be told apart.
type exchangeContext struct {
	context.Context // ends when the time is over
	client          client
	undated         bool
}

// client is what an exchangeContext knows of its client.
type client struct {
	connected context.Context // ends with the connection
	admitted  bool
}

// newExchange makes the context of a request.
func (f *Front) newExchange(r *http.Request, admitted bool) (exchangeContext, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), exchangeTimeout)
	t := f.options.RedisTimeout
	return exchangeContext{ctx, client{r.Context(), admitted}, t > 0 && t <= maxRedisTimeout}, cancel
}

// maxRedisTimeout leaves time for a call on a Redis that is silent several times.
const maxRedisTimeout = exchangeTimeout / 3

// Deadline returns none where Redis's own timeouts end a call in time. A caller without a deadline sends its call
// itself; for one with a deadline a goroutine does, so that the caller can leave.
func (e exchangeContext) Deadline() (time.Time, bool) {
	if e.undated {
		return time.Time{}, false
	}
	return e.Context.Deadline()
}

// Value returns the client under clientKey.
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

// Admitted reports whether whoever asks an open area might ask the others, too.
func Admitted(r *http.Request) bool { return clientOf(r).admitted }

// ErrStopping is the cause of a Long's or Wait's context when the front stops.
var ErrStopping = errors.New("the front stops")

// Long is the context of a request that may take so long, instead of the usual time. It ends when that
// is over (context.DeadlineExceeded), or the front stops (ErrStopping); context.Cause tells which. The
// body must have been read. From the cancel on the answer has the time of any other.
func Long(w http.ResponseWriter, r *http.Request, most time.Duration) (context.Context, context.CancelFunc) {
	return long(context.WithoutCancel(r.Context()), w, most)
}

// MaxWaiting is how many requests may Wait at a time. Each takes some 26 KB. There may be as many
// connections, so it bounds those that come many on one, by HTTP/2.
const MaxWaiting = MaxConns

// ErrCrowded is returned by Wait when too many requests wait already.
var ErrCrowded = errors.New("too many requests wait for a job")

// Wait has wait wait with a context that is Long's, and ends when the client hangs up, too
// (context.Canceled). If the client turns out to have closed only its own side of the connection, wait is
// called once more, and its context does not end with the client any more.
func Wait(w http.ResponseWriter, r *http.Request, most time.Duration, wait func(context.Context) error) error {
	waiting := &frontOf(r.Context()).counter.waiting
	defer waiting.Add(-1)
	if waiting.Add(1) > MaxWaiting {
		return ErrCrowded
	}
	connected := clientOf(r).connected
	err := waitWith(connected, w, most, wait)
	if errors.Is(err, context.Canceled) && connected.Err() != nil && !HungUp(w, r) {
		return waitWith(context.WithoutCancel(connected), w, most, wait)
	}
	return err
}

func waitWith(ctx context.Context, w http.ResponseWriter, most time.Duration, wait func(context.Context) error) error {
	ctx, cancel := long(ctx, w, most)
	defer cancel()
	return wait(ctx)
}

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

// Brief is Long for what takes no more than the usual time, at less cost; ctx is a request's.
func Brief(ctx context.Context, most time.Duration) (context.Context, context.CancelFunc) {
	ctx, over := context.WithTimeout(ctx, most)
	ctx, stop := context.WithCancelCause(ctx)
	release := context.AfterFunc(frontOf(ctx).stopping, func() { stop(ErrStopping) })
	return ctx, func() {
		release()
		stop(nil)
		over()
	}
}
