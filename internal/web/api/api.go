// Package api is the JSON API under /v1/: all that a program in any language needs to push jobs, to
// work on them, and to operate Delayer. openapi.yaml describes it.
package api

import (
	"cmp"
	"net/http"
	"time"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/web"
	"github.com/mix-basic/delayer/internal/web/longpoll"
)

// Options of the API.
type Options struct {
	// MaxBody is how large a request's body may be, in bytes; 0 is 1 MiB.
	MaxBody int64
	// MaxWait is how long a reserve may wait for a job; 0 is 178 s.
	MaxWait time.Duration
	// MaxWork is how long a request that is for any number of jobs may take; 0 is 5 minutes.
	MaxWork time.Duration
	// Pushed is told of jobs that were stored; nil: nobody is.
	Pushed func(topic string, jobs int)
	// Failed is told why a request failed through no fault of the client's; nil: nobody is.
	Failed func(err error)
}

type api struct {
	client    *client.Client
	inspector *inspect.Inspector
	poller    *longpoll.Poller
	Options
}

// New is the area of the API.
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

// serve answers a request, with a problem if need be.
func (a *api) serve(w http.ResponseWriter, r *http.Request) {
	answer, err := a.answer(w, r)
	if err != nil {
		answer = a.refusal(w, err)
	}
	a.poller.Deliver(w, r, answer.jobs, func() error { return answer.write(w) })
}

func (a *api) answer(w http.ResponseWriter, r *http.Request) (response, error) {
	route, path, err := find(r)
	if err != nil {
		return response{}, err
	}
	web.Route(w, route.Method+" "+route.Path)
	c, err := newCall(w, r, route, path, a.MaxBody)
	if err != nil {
		return response{}, err
	}
	return route.serve(a, c)
}

// refusal is the problem that the error is. It may close the connection, on which there may be more
// of a body that is not worth reading.
func (a *api) refusal(w http.ResponseWriter, err error) response {
	p := problemOf(err)
	if p.isTrouble() {
		a.Failed(err)
	}
	if p.kind.closes {
		w.Header().Set("Connection", "close")
	}
	return p.answer()
}

// refusals are the problems of requests that the front does not let in.
var refusals = map[int]*kind{
	http.StatusUnauthorized: unauthorized, http.StatusForbidden: forbidden,
	http.StatusMisdirectedRequest: misdirected, http.StatusServiceUnavailable: crowded,
}

func refuse(w http.ResponseWriter, _ *http.Request, status int, why string) {
	refusals[status].problem("%s", why).answer().write(w)
}
