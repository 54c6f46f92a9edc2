package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/web"
)

// kind is a type of problems, as RFC 9457 has it.
type kind struct {
	name       string // what its type ends with
	status     int
	title      string
	retryAfter int  // s; 0: it is not said
	closes     bool // the connection, as there may be more of the request
}

// The kinds of problems. openapi.yaml says what each means.
var (
	badRequest   = newKind("bad-request", http.StatusBadRequest, "The request can't be read")
	unauthorized = newKind("unauthorized", http.StatusUnauthorized, "Not authorized")
	forbidden    = newKind("forbidden", http.StatusForbidden, "Not allowed here")
	noRoute      = newKind("no-route", http.StatusNotFound, "There is nothing at this path")
	notFound     = newKind("not-found", http.StatusNotFound, "Not found")
	badMethod    = newKind("method-not-allowed", http.StatusMethodNotAllowed, "This path knows other methods")
	slow         = newKind("timeout", http.StatusRequestTimeout, "The request took too long").closing()
	exists       = newKind("exists", http.StatusConflict, "This ID is taken")
	leaseLost    = newKind("lease-lost", http.StatusConflict, "The job is not reserved under this topic and token")
	gone         = newKind("gone", http.StatusGone, "The job is gone")
	tooLarge     = newKind("too-large", http.StatusRequestEntityTooLarge, "The body is too large").closing()
	badType      = newKind("unsupported-media-type", http.StatusUnsupportedMediaType, "The body must be JSON").closing()
	misdirected  = newKind("misdirected", http.StatusMisdirectedRequest, "This name is not served here")
	invalid      = newKind("invalid", http.StatusUnprocessableEntity, "A value is wrong")
	reused       = newKind("key-reused", http.StatusUnprocessableEntity, "The Idempotency-Key was used for another request")
	refused      = newKind("redis-refused", http.StatusBadGateway, "Redis refuses this")
	unavailable  = newKind("redis-unavailable", http.StatusServiceUnavailable, "Redis is not available").after(2)
	full         = newKind("redis-full", http.StatusServiceUnavailable, "Redis is full").after(10)
	crowded      = newKind("too-many-connections", http.StatusServiceUnavailable, "There are too many connections").after(2)
	waiting      = newKind("too-many-waiting", http.StatusServiceUnavailable, "Too many requests wait").after(2)
	stopping     = newKind("stopping", http.StatusServiceUnavailable, "The daemon stops").after(2)
	notStored    = newKind("not-stored", http.StatusServiceUnavailable, "The job was not stored, because of another one")
	tooFew       = newKind("too-few-replicas", http.StatusGatewayTimeout, "The job is stored, but too few replicas have it")
)

// kinds are all that there are.
var kinds []*kind

func newKind(name string, status int, title string) *kind {
	k := &kind{name: name, status: status, title: title}
	kinds = append(kinds, k)
	return k
}

// Problems are the types of all problems.
func Problems() (types []string) {
	for _, k := range kinds {
		types = append(types, k.uri())
	}
	return types
}

// uri is the type that a client sees.
func (k *kind) uri() string { return "urn:delayer:problem:" + k.name }

func (k *kind) after(seconds int) *kind { k.retryAfter = seconds; return k }

func (k *kind) closing() *kind { k.closes = true; return k }

// problem is an error as the client is told of it.
type problem struct {
	*kind
	Detail    string
	Field     string // the JSON pointer of the value that is wrong; empty: none is, or it is in no body
	Parameter string // the name of the parameter, of path, query or header, that is wrong
	allow     string // the methods that the path knows
	replicas  *int   // how many have the job, if that is known
	id        string // the job's, if it is stored, or its ID is taken
}

func (k *kind) problem(detail string, args ...any) *problem {
	return &problem{kind: k, Detail: fmt.Sprintf(detail, args...)}
}

// field is a problem with a value in the body.
func (k *kind) field(pointer, detail string, args ...any) *problem {
	p := k.problem(detail, args...)
	p.Field = pointer
	return p
}

// parameter is a problem with a parameter of path or query.
func (k *kind) parameter(name, detail string, args ...any) *problem {
	p := k.problem(detail, args...)
	p.Parameter = name
	return p
}

// isTrouble reports whether it is through no fault of the client's, none of another job's, and not since the
// daemon stops.
func (p *problem) isTrouble() bool {
	return p.status >= http.StatusInternalServerError && p.kind != notStored && p.kind != stopping && (p.kind != tooFew || p.replicas == nil)
}

func (p *problem) Error() string { return p.title + ": " + p.Detail }

func (p *problem) json() object {
	var o object
	o.put("type", p.uri())
	o.put("title", p.title)
	o.put("status", p.status)
	if p.Detail != "" {
		o.put("detail", p.Detail)
	}
	o.textIfAny("field", p.Field)
	o.textIfAny("parameter", p.Parameter)
	o.textIfAny("id", p.id)
	if p.replicas != nil {
		o.put("replicas", *p.replicas)
	}
	return o
}

func (p *problem) answer() response {
	header := map[string]string{}
	if p.retryAfter > 0 {
		header["Retry-After"] = fmt.Sprint(p.retryAfter)
	}
	if p.allow != "" {
		header["Allow"] = p.allow
	}
	return response{status: p.status, content: "application/problem+json", body: encode(p.json()), header: header}
}

// told is what a client is told of an error. What Redis says goes to nobody but Failed: it may name keys
// and users.
var told = []struct {
	err    error
	kind   *kind
	detail string
}{
	{client.ErrReused, reused, "nothing was changed: a push of this key says something else, and counts"}, // which is an ErrExists, too
	{client.ErrExists, exists, "nothing was changed"},
	{client.ErrNotFound, notFound, "there is no such job: it may have been acknowledged, popped or removed, or its time is over"},
	{store.ErrGone, gone, "it was acknowledged before, popped or removed"}, // which is an ErrLeaseLost, too
	{client.ErrLeaseLost, leaseLost, "nothing was changed: the lease has ended, or the job was settled, removed, rescheduled or pushed anew"},
	{client.ErrOtherFailed, notStored, "another job that goes to Redis together with it can't be stored"},
	{client.ErrClosed, stopping, "ask again"},
	{web.ErrStopping, stopping, "ask again"},
	{web.ErrCrowded, waiting, "there is no job now; ask again later, or without wait"},
}

// problemOf is the error as the client is told of it.
func problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	if few := (*client.ReplicasError)(nil); errors.As(err, &few) {
		return fewReplicas(few)
	}
	if errors.Is(err, client.ErrInvalid) {
		return invalid.problem("%s", err)
	}
	for _, t := range told {
		if errors.Is(err, t.err) {
			return t.kind.problem("%s", t.detail)
		}
	}
	switch store.KindOf(err) {
	case store.OutOfMemory:
		return full.problem("nothing was stored: its memory is used up")
	case store.Denied:
		return refused.problem("it does not let the daemon do this; the daemon's log says why")
	case store.WrongType, store.OtherAnswer:
		return refused.problem("a key has a wrong type, or something else is wrong in Redis; the daemon's log says what")
	}
	return unavailable.problem("it can't be reached, does not answer, or takes no writes for now; if this was to change something, it is unknown whether it did")
}

func fewReplicas(few *client.ReplicasError) *problem {
	p := tooFew.problem("%d of %d had it in time", few.Have, few.Want)
	p.id, p.replicas = few.ID, &few.Have
	if few.Err != nil {
		p.Detail, p.replicas = "it is not known how many: Redis did not say so", nil
	}
	return p
}
