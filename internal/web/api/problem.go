package api

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/view"
	"github.com/mix-basic/delayer/internal/web"
)

// kind is a problem type as in RFC 9457.
type kind struct {
	name       string // last part of the type's URI
	status     int
	title      string
	retryAfter int  // seconds; 0 for no header
	closes     bool // closes the connection instead of reading the rest of the request
}

// The kinds of problems, explained in openapi.yaml.
var (
	badRequest   = newKind("bad-request", http.StatusBadRequest, "The request can't be read")
	unauthorized = newKind("unauthorized", http.StatusUnauthorized, "Not authorized")
	forbidden    = newKind("forbidden", http.StatusForbidden, "Not allowed here")
	noRoute      = newKind("no-route", http.StatusNotFound, "No such path")
	notFound     = newKind("not-found", http.StatusNotFound, "Not found")
	badMethod    = newKind("method-not-allowed", http.StatusMethodNotAllowed, "Method not allowed")
	slow         = newKind("timeout", http.StatusRequestTimeout, "The request took too long").closing()
	exists       = newKind("exists", http.StatusConflict, "This ID is taken")
	otherTopic   = newKind("other-topic", http.StatusConflict, "This ID is taken by a job of another topic")
	isPaused     = newKind("paused", http.StatusConflict, "The topic is paused with another end or note")
	isReserved   = newKind("reserved", http.StatusConflict, "The job is reserved")
	leaseLost    = newKind("lease-lost", http.StatusConflict, "The job is not reserved under this topic and token")
	gone         = newKind("gone", http.StatusGone, "The job is gone")
	tooLarge     = newKind("too-large", http.StatusRequestEntityTooLarge, "The body is too large").closing()
	badType      = newKind("unsupported-media-type", http.StatusUnsupportedMediaType, "The body must be JSON").closing()
	misdirected  = newKind("misdirected", http.StatusMisdirectedRequest, "Unknown host name")
	invalid      = newKind("invalid", http.StatusUnprocessableEntity, "Invalid value")
	reused       = newKind("key-reused", http.StatusUnprocessableEntity, "The Idempotency-Key was used for another request")
	refused      = newKind("redis-refused", http.StatusBadGateway, "Redis refused the request")
	unavailable  = newKind("redis-unavailable", http.StatusServiceUnavailable, "Redis is not available").after(2)
	full         = newKind("redis-full", http.StatusServiceUnavailable, "Redis is full").after(10)
	crowded      = newKind("too-many-connections", http.StatusServiceUnavailable, "Too many connections").after(2)
	waiting      = newKind("too-many-waiting", http.StatusServiceUnavailable, "Too many waiting requests").after(2)
	stopping     = newKind("stopping", http.StatusServiceUnavailable, "The daemon is stopping").after(2)
	notStored    = newKind("not-stored", http.StatusServiceUnavailable, "The job was not stored because of another one")
	tooFew       = newKind("too-few-replicas", http.StatusGatewayTimeout, "The job is stored, but too few replicas have it")
)

// kinds lists all of them.
var kinds []*kind

func newKind(name string, status int, title string) *kind {
	k := &kind{name: name, status: status, title: title}
	kinds = append(kinds, k)
	return k
}

// Problems returns the types of all problems.
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

// problem is an error as the client sees it.
type problem struct {
	*kind
	Detail    string
	Field     jsontext.Pointer // to the wrong value in the body, if any
	Parameter string           // name of the wrong path, query or header parameter
	allow     string           // value of the Allow header
	replicas  *int             // number of replicas that have the job, if known
	id        string           // ID of the stored job, or the ID that is taken
}

func (k *kind) problem(detail string, args ...any) *problem {
	return &problem{kind: k, Detail: fmt.Sprintf(detail, args...)}
}

// field returns a problem with a value in the body.
func (k *kind) field(at jsontext.Pointer, detail string, args ...any) *problem {
	p := k.problem(detail, args...)
	p.Field = at
	return p
}

// parameter returns a problem with a parameter of the path or query.
func (k *kind) parameter(name, detail string, args ...any) *problem {
	p := k.problem(detail, args...)
	p.Parameter = name
	return p
}

// isTrouble reports whether neither the client, nor another job, nor a shutdown caused the problem.
func (p *problem) isTrouble() bool {
	return p.status >= http.StatusInternalServerError && p.kind != notStored && p.kind != stopping && (p.kind != tooFew || p.replicas == nil)
}

func (p *problem) Error() string { return p.title + ": " + p.Detail }

func (p *problem) json() object {
	o := view.Of("type", p.uri(), "title", p.title, "status", p.status)
	o.PutIfAny("detail", p.Detail)
	o.PutIfAny("field", string(p.Field))
	o.PutIfAny("parameter", p.Parameter)
	o.PutIfAny("id", p.id)
	if p.replicas != nil {
		o.Put("replicas", *p.replicas)
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
	return response{status: p.status, content: "application/problem+json", body: view.Encode(p.json()), header: header}
}

// told maps errors to what the client is told. See web.Trouble for others.
var told = []struct {
	err    error
	kind   *kind
	detail string
}{
	{client.ErrReused, reused, "nothing was changed: an earlier push with this key had other content"}, // also an ErrExists, so it comes first
	{client.ErrExists, exists, "a job with this ID exists; nothing was changed"},
	{client.ErrReserved, isReserved, "a consumer has reserved the job; nothing was changed"},
	{client.ErrPaused, isPaused, "nothing was changed"},
	{client.ErrNotFound, notFound, "there is no such job: it may have been acknowledged, popped or removed, or has expired"},
	{store.ErrGone, gone, "it was already acknowledged, popped or removed"}, // also an ErrLeaseLost, so it comes first
	{client.ErrLeaseLost, leaseLost, "nothing was changed: the lease has ended, or the job was settled, removed, rescheduled or pushed again"},
	{client.ErrOtherFailed, notStored, "another job of the batch can't be stored"},
	{client.ErrClosed, stopping, "try again"},
	{web.ErrStopping, stopping, "try again"},
	{web.ErrCrowded, waiting, "no job is ready; try again later, or without wait"},
}

// problemOf converts an error for the client.
func problemOf(err error) *problem {
	var p *problem
	if errors.As(err, &p) {
		return p
	}
	if few := (*client.ReplicasError)(nil); errors.As(err, &few) {
		return fewReplicas(few)
	}
	if other := (store.OtherTopic{}); errors.As(err, &other) {
		return otherTopic.problem("%s; nothing was changed", other)
	}
	if errors.Is(err, client.ErrInvalid) {
		return invalid.problem("%s", err)
	}
	for _, t := range told {
		if errors.Is(err, t.err) {
			return t.kind.problem("%s", t.detail)
		}
	}
	kind := unavailable
	switch store.KindOf(err) {
	case store.OutOfMemory:
		kind = full
	case store.Denied, store.WrongType, store.OtherAnswer:
		kind = refused
	}
	return kind.problem("%s", web.Trouble(err))
}

func fewReplicas(few *client.ReplicasError) *problem {
	p := tooFew.problem("%d of %d had it in time", few.Have, few.Want)
	p.id, p.replicas = few.ID, &few.Have
	if few.Err != nil {
		p.Detail, p.replicas = "it is unknown how many replicas have it", nil
	}
	return p
}
