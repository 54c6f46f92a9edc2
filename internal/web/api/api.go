// Package api is the JSON API under /v1/. Programs in any language can push jobs, work on them and operate
// Delayer.
//
// Routes is the table of all requests: their parameters, fields and handlers. openapi.yaml describes the same,
// and a test compares both. A request is decoded strictly (see decode) into a call; its handler returns a
// value, which becomes JSON (see object), or an error, which becomes a problem (RFC 9457).
//
// Invariants: a request that is wrong anywhere changes nothing. Redis's own words never reach a client: they
// may name keys and users.
//
// Rejected: encoding/json, which accepts repeated names and names in another case, and replaces bytes that are not UTF-8; and structs for bodies,
// which can't choose between a text and its base64 form, nor tell a missing field from a zero one. go-json-experiment is encoding/json/v2,
// which Go builds only as an experiment so far.
package api

import (
	"cmp"
	"net/http"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/view"
	"github.com/mix-basic/delayer/internal/web"
	"github.com/mix-basic/delayer/internal/web/longpoll"
)

// Options of the API.
type Options struct {
	// MaxBody is the maximum size of a request's body in bytes; 0 means 1 MiB.
	MaxBody int64
	// MaxWait is how long a reserve may wait for a job; 0 means 178 s.
	MaxWait time.Duration
	// MaxWork is how long a bulk request may take; 0 means 5 minutes.
	MaxWork time.Duration
	// Pushed is called for jobs that were stored; may be nil.
	Pushed func(topic string, jobs int)
	// Failed is called with errors that are not the client's fault; may be nil.
	Failed func(err error)
}

type api struct {
	client    *client.Client
	inspector *inspect.Inspector
	poller    *longpoll.Poller
	Options
}

// New returns the API's area.
func New(c *client.Client, op *inspect.Inspector, o Options) web.Area {
	o.MaxBody, o.MaxWait, o.MaxWork = cmp.Or(o.MaxBody, 1<<20), cmp.Or(o.MaxWait, 178*time.Second), cmp.Or(o.MaxWork, 5*time.Minute)
	if o.Pushed == nil {
		o.Pushed = func(string, int) {}
	}
	if o.Failed == nil {
		o.Failed = func(error) {}
	}
	a := &api{c, op, longpoll.New(c, o.Failed), o}
	return web.Area{
		Handler:  http.HandlerFunc(a.serve),
		Patterns: []string{"/v1/"},
		Refuse:   refuse,
		Reads:    func(r *http.Request) bool { return web.Safe(r) || isDryRun(r) },
	}
}

// serve answers a request.
func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	answer, err := a.answer(w, r)
	if err != nil {
		p := problemOf(err)
		if p.isTrouble() {
			a.Failed(err)
		}
		if p.kind.closes { // instead of reading the rest of the body
			w.Header().Set("Connection", "close")
		}
		answer = p.answer()
	}
	if answer.write(w) != nil {
		a.poller.Release(answer.jobs)
	}
}

func (a *api) answer(w http.ResponseWriter, r *http.Request) (response, error) {
	route, path, err := find(r)
	if err != nil {
		return response{}, err
	}
	web.Route(w, route.Method+" "+route.Path)
	c := &call{api: a, w: w, r: r, path: path}
	if err := c.read(route); err != nil {
		return response{}, err
	}
	result, err := route.serve(c)
	return responseOf(result), err
}

// refusals are the problems for requests that the guard does not admit, by status.
var refusals = map[int]*kind{
	http.StatusUnauthorized: unauthorized, http.StatusForbidden: forbidden,
	http.StatusMisdirectedRequest: misdirected, http.StatusServiceUnavailable: crowded,
}

func refuse(w http.ResponseWriter, _ *http.Request, status int, why string) {
	refusals[status].problem("%s", why).answer().write(w)
}

// object is a JSON object.
type object = view.Object

// response is what a client receives.
type response struct {
	status  int
	content string // media type
	body    []byte // nil for none
	header  map[string]string
	jobs    []*client.Delivery // released if the answer cannot be written
}

// responseOf is the response to a handler's result.
func responseOf(result any) response {
	switch result := result.(type) {
	case response:
		return result
	case nil:
		return response{status: http.StatusNoContent}
	}
	return response{status: http.StatusOK, content: "application/json", body: view.Encode(result)}
}

func (r response) write(w http.ResponseWriter) error {
	for name, value := range r.header {
		w.Header().Set(name, value)
	}
	return web.Write(w, r.status, r.content, r.body)
}
