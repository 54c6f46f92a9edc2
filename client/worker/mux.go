package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// Job is what a handler receives.
type Job struct {
	client.Message
	// Attempt counts the deliveries, starting at 1. MaxAttempts is their maximum; 0 means no maximum.
	Attempt, MaxAttempts int
	// Token grows with each delivery of a job. Storage that rejects a token smaller than the last one it saw
	// is safe from a handler whose lease has ended unnoticed.
	Token int64
	// LateBy is how long after its due time the job was reserved, or -1 if unknown. It is known for first
	// attempts if the job has the default ready lifetime of 7 days or was pushed by this client.
	LateBy time.Duration
}

// LogArgs returns topic, job (its ID), attempt and, if its headers have a traceparent, trace (the ID of the trace that the
// push belongs to), for slog.Logger.With. The worker's own log lines about a job have them.
func (j *Job) LogArgs() []any {
	args := []any{"topic", j.Topic, "job", j.ID, "attempt", j.Attempt}
	if parts := strings.Split(j.Headers["traceparent"], "-"); len(parts) >= 4 && len(parts[1]) == 32 {
		args = append(args, "trace", parts[1])
	}
	return args
}

// Handler handles the jobs of a topic. nil acknowledges the job; after an error it is delivered again later,
// see RetryAfter, Release, Throttle and Bury. A panic counts as an error.
//
// The context ends when the lease is lost (client.ErrLeaseLost), the timeout has passed
// (context.DeadlineExceeded), or the worker has to stop; context.Cause tells which. If it ended because the
// worker stops, any error releases the job at once and the attempt does not count.
type Handler interface {
	Handle(ctx context.Context, job *Job) error
}

// HandlerFunc is a function that is a Handler.
type HandlerFunc func(ctx context.Context, job *Job) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, job *Job) error { return f(ctx, job) }

// Middleware wraps a Handler. A panic of the wrapped Handler reaches it as an error (PanicError).
type Middleware func(Handler) Handler

// Mux maps topics to handlers. Fill it before the worker runs.
type Mux struct {
	topics     []topic // in the order in which they were added
	middleware []Middleware
	errs       []error
}

type topic struct {
	name    string
	handler Handler
	options TopicOptions
}

// NewMux returns a Mux without handlers.
func NewMux() *Mux { return new(Mux) }

// Use wraps all handlers, including those already added. The first middleware is outermost; all of them are
// outside the middleware of single topics (TopicOptions).
func (m *Mux) Use(middleware ...Middleware) {
	m.errs = append(m.errs, checkMiddleware(middleware))
	m.middleware = append(m.middleware, middleware...)
}

// Handle registers the topic's handler, with TopicOptions if it needs any. A topic can have only one handler, and one
// TopicOptions; otherwise Run returns an error.
func (m *Mux) Handle(name string, h Handler, options ...TopicOptions) {
	t := topic{name: name, handler: h}
	if len(options) > 0 {
		t.options = options[0]
	}
	switch {
	case len(options) > 1:
		m.errs = append(m.errs, invalid("options", "topic %s has %d TopicOptions, want one", store.Quote(name), len(options)))
	case name == "":
		m.errs = append(m.errs, invalid("topic", "it is empty"))
	case isNil(h):
		m.errs = append(m.errs, invalid("handler", "that of topic %s is nil", store.Quote(name)))
	case slices.ContainsFunc(m.topics, func(other topic) bool { return other.name == name }):
		m.errs = append(m.errs, invalid("handler", "topic %s has two", store.Quote(name)))
	}
	m.errs = append(m.errs, t.options.check(name))
	m.topics = append(m.topics, t)
}

// HandleFunc is Handle for a function.
func (m *Mux) HandleFunc(name string, f func(ctx context.Context, job *Job) error, options ...TopicOptions) {
	m.Handle(name, HandlerFunc(f), options...)
}

func isNil(h Handler) bool {
	f, ok := h.(HandlerFunc)
	return h == nil || ok && f == nil
}

// Handle registers f for the topic's jobs, whose bodies are T as JSON, as client.Topic pushes them. A body
// that cannot be decoded makes its job a dead letter at once.
func Handle[T any](m *Mux, topic client.Topic[T], f func(ctx context.Context, value T) error, options ...TopicOptions) {
	HandleWith(m, string(topic), json.Unmarshal, f, options...)
}

// HandleGroup registers f for the topic's groups (see client.Group). values are the values pushed to a group,
// in order, at least one. f's result applies to the group as a whole. A group that cannot be decoded becomes
// a dead letter at once, as does a job that is no group.
func HandleGroup[T any](m *Mux, topic client.Topic[T], f func(ctx context.Context, values []T) error, options ...TopicOptions) {
	HandleWith(m, string(topic), decodeGroup[T], f, options...)
}

func decodeGroup[T any](body []byte, values any) error {
	err := json.Unmarshal(body, values)
	if err == nil && len(*values.(*[]T)) == 0 {
		return errors.New("there is nothing in it, so it is no group")
	}
	return err
}

// HandleWith is Handle for bodies in another format than JSON. decode receives a *T, like json.Unmarshal.
func HandleWith[T any](m *Mux, name string, decode func(body []byte, value any) error, f func(ctx context.Context, value T) error, options ...TopicOptions) {
	if f == nil || decode == nil {
		m.Handle(name, nil, options...)
		return
	}
	m.HandleFunc(name, func(ctx context.Context, job *Job) error {
		var value T
		if err := decode([]byte(job.Body), &value); err != nil {
			return Bury(fmt.Errorf("the body can't be decoded: %w", err))
		}
		return f(ctx, value)
	}, options...)
}

type jobKey struct{}

// JobOf returns the job of a handler's context, or nil if it is not a handler's.
func JobOf(ctx context.Context) *Job {
	if ctx == nil {
		return nil
	}
	job, _ := ctx.Value(jobKey{}).(*Job)
	return job
}

func (m *Mux) wrapped() ([]topic, error) {
	errs := m.errs
	if len(m.topics) == 0 {
		errs = append(errs, invalid("mux", "it has no handlers"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	topics := slices.Clone(m.topics)
	for i, t := range topics {
		h := withoutPanics(t.handler)
		for _, wrap := range slices.Backward(slices.Concat(m.middleware, t.options.Middleware)) {
			if h = wrap(h); isNil(h) {
				return nil, invalid("middleware", "it makes a nil handler of that of topic %s", store.Quote(t.name))
			}
		}
		topics[i].handler = withoutPanics(h) // panics of the middleware
	}
	return topics, nil
}

func checkMiddleware(middleware []Middleware) error {
	if slices.ContainsFunc(middleware, func(wrap Middleware) bool { return wrap == nil }) {
		return invalid("middleware", "it is nil")
	}
	return nil
}

// withoutPanics turns panics of the handler, and of the error that it returns, into errors.
func withoutPanics(h Handler) Handler {
	return HandlerFunc(func(ctx context.Context, job *Job) (err error) {
		defer func() {
			if value := recover(); value != nil {
				err = &PanicError{value, debug.Stack()}
			}
		}()
		if err = h.Handle(ctx, job); err != nil { // here it may panic, for example if it is a typed nil
			_, _ = err.Error(), failureOf(err)
		}
		return err
	})
}

func invalid(field, why string, args ...any) error {
	return fmt.Errorf("%w %s: "+why, append([]any{client.ErrInvalid, field}, args...)...)
}
