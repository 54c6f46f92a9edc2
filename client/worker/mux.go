package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
)

// Job is what a handler gets.
type Job struct {
	client.Message
	// Attempt counts the deliveries; the first is 1. MaxAttempts is how many there are at most;
	// 0 is any number.
	Attempt, MaxAttempts int
	// Token grows from delivery to delivery of a job. A storage that refuses a smaller one than
	// it has seen is safe from a handler whose lease has ended unnoticed.
	Token int64
	// LateBy is how long after its due time the job was reserved; -1 if that is not known. It is known of
	// first attempts, if the job is kept for 7 days once it is ready, or was pushed by this client.
	LateBy time.Duration
}

// Handler handles the jobs of a topic. nil is done; an error has the job delivered again later,
// see RetryAfter, Snooze and Bury. A panic counts as an error.
//
// The context ends when the lease is lost (client.ErrLeaseLost), the timeout has passed
// (context.DeadlineExceeded), or the worker has to stop; context.Cause says why. Where it has ended as the
// worker stops, any error has the job given back at once, and the attempt does not count.
type Handler interface {
	Handle(ctx context.Context, job *Job) error
}

// HandlerFunc is a function as a Handler.
type HandlerFunc func(ctx context.Context, job *Job) error

// Handle calls f.
func (f HandlerFunc) Handle(ctx context.Context, job *Job) error { return f(ctx, job) }

// Middleware makes a Handler of another one, which it calls. A panic of that one is an error to it
// (PanicError).
type Middleware func(Handler) Handler

// Mux is which handler handles which topic. Fill it before the worker runs.
type Mux struct {
	topics     []topic // in the order in which they were added
	middleware []Middleware
	errs       []error
}

// topic is one of a mux.
type topic struct {
	name    string
	handler Handler
	options TopicOptions
}

// NewMux makes a Mux without handlers.
func NewMux() *Mux { return new(Mux) }

// Use puts middleware around all handlers, also those that were added before, the first one outermost,
// and outside that of single topics (TopicOptions).
func (m *Mux) Use(middleware ...Middleware) {
	m.errs = append(m.errs, checkMiddleware(middleware))
	m.middleware = append(m.middleware, middleware...)
}

// Handle has the handler handle the topic's jobs. A topic can have one handler; what is wrong is
// the error of Run.
func (m *Mux) Handle(name string, h Handler, options ...TopicOption) {
	t := topic{name: name, handler: h}
	for _, option := range options {
		if option == nil {
			m.errs = append(m.errs, invalid("option", "one of topic %s is nil", store.Quote(name)))
		} else {
			option(&t.options)
		}
	}
	switch {
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

// HandleFunc is Handle with a function.
func (m *Mux) HandleFunc(name string, f func(ctx context.Context, job *Job) error, options ...TopicOption) {
	m.Handle(name, HandlerFunc(f), options...)
}

func isNil(h Handler) bool {
	f, ok := h.(HandlerFunc)
	return h == nil || ok && f == nil
}

// Handle has f handle the topic's jobs, whose bodies are JSON of a T, as client.Topic pushes them. One that
// can't be decoded becomes a dead letter at once.
func Handle[T any](m *Mux, topic client.Topic[T], f func(ctx context.Context, value T) error, options ...TopicOption) {
	HandleWith(m, string(topic), json.Unmarshal, f, options...)
}

// HandleGroup has f handle the topic's groups (see client.Group), each of which has what was pushed to it, in that order: one T at
// least. What f returns is of the group as a whole. One that can't be decoded becomes a dead letter at once, as does a job that is no group.
func HandleGroup[T any](m *Mux, topic client.Topic[T], f func(ctx context.Context, values []T) error, options ...TopicOption) {
	HandleWith(m, string(topic), decodeGroup[T], f, options...)
}

func decodeGroup[T any](body []byte, values any) error {
	err := json.Unmarshal(body, values)
	if err == nil && len(*values.(*[]T)) == 0 {
		return errors.New("there is nothing in it, so it is no group")
	}
	return err
}

// HandleWith is Handle for bodies of another form than JSON. decode gets a *T, as
// json.Unmarshal does.
func HandleWith[T any](m *Mux, name string, decode func(body []byte, value any) error, f func(ctx context.Context, value T) error, options ...TopicOption) {
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

// JobOf is the job that a handler's context belongs to; nil if it is no handler's.
func JobOf(ctx context.Context) *Job {
	if ctx == nil {
		return nil
	}
	job, _ := ctx.Value(jobKey{}).(*Job)
	return job
}

// wrapped are the topics with their handlers inside the middleware, or what is wrong with the mux.
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
		topics[i].handler = withoutPanics(h) // of the middleware
	}
	return topics, nil
}

func checkMiddleware(middleware []Middleware) error {
	if slices.ContainsFunc(middleware, func(wrap Middleware) bool { return wrap == nil }) {
		return invalid("middleware", "it is nil")
	}
	return nil
}

// withoutPanics is a handler whose panics are errors.
func withoutPanics(h Handler) Handler {
	return HandlerFunc(func(ctx context.Context, job *Job) (err error) {
		defer func() {
			if value := recover(); value != nil {
				err = &PanicError{value, debug.Stack()}
			}
		}()
		return h.Handle(ctx, job)
	})
}

func invalid(field, why string, args ...any) error {
	return fmt.Errorf("%w %s: "+why, append([]any{client.ErrInvalid, field}, args...)...)
}
