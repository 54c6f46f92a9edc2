package api

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/duration"
	"github.com/mix-basic/delayer/internal/web"
)

// call is a request with its route and its body, if the route has one.
type call struct {
	w     http.ResponseWriter
	r     *http.Request
	path  map[string]string // values in the path
	query url.Values
	body  values // nil if the route has none
}

func newCall(w http.ResponseWriter, r *http.Request, route *Route, path map[string]string, maxBody int64) (*call, error) {
	c := &call{w: w, r: r, path: path}
	var err error
	if c.query, err = readQuery(r, route.Query); err != nil {
		return nil, err
	}
	if route.Body == nil {
		if r.ContentLength != 0 {
			return nil, badRequest.problem("there is a body, which means nothing here")
		}
		return c, nil
	}
	if err := checkContentType(r.Header); err != nil {
		return nil, err
	}
	body, err := web.ReadBody(w, r, maxBody)
	switch {
	case errors.Is(err, web.ErrTooLarge):
		return nil, tooLarge.problem("the body has more than %d bytes; max_body in [http] says how many it may have", maxBody)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, badRequest.problem("the body is shorter than Content-Length says")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, slow.problem("the body did not arrive")
	case err != nil:
		return nil, badRequest.problem("the body can't be read: want chunks as HTTP/1.1 has them, or Content-Length")
	}
	c.body, err = decode(body, route.Body)
	return c, err
}

// readQuery reads the query; each parameter may occur once.
func readQuery(r *http.Request, known []string) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest.problem("the query can't be read: want name=value, percent-encoded, with & between them")
	}
	for name, values := range query {
		switch {
		case !slices.Contains(known, name) && len(known) == 0:
			return nil, badRequest.parameter(name, "there is no such parameter here, nor any other")
		case !slices.Contains(known, name):
			return nil, badRequest.parameter(name, "there is no such parameter here: want %s", strings.Join(known, ", "))
		case len(values) > 1:
			return nil, badRequest.parameter(name, "it is given %d times", len(values))
		}
	}
	return query, nil
}

// checkContentType also rejects HTML forms of other sites.
func checkContentType(h http.Header) error {
	media, parameters, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset := parameters["charset"]
	switch {
	case err != nil || media != "application/json":
		return badType.problem("want Content-Type: application/json")
	case charset != "" && !strings.EqualFold(charset, "utf-8"):
		return badType.problem("want UTF-8")
	case h.Get("Content-Encoding") != "":
		return badType.problem("want a body without Content-Encoding")
	}
	return nil
}

func (c *call) id() string    { return c.path["id"] }
func (c *call) topic() string { return c.path["topic"] }

func (c *call) context() context.Context { return c.r.Context() }

// number returns the parameter's number, or otherwise if it is missing.
func (c *call) number(name string, otherwise, least, most int) (int, error) {
	if !c.query.Has(name) {
		return otherwise, nil
	}
	n, err := strconv.Atoi(c.query.Get(name))
	if err != nil || n < least || n > most {
		return 0, invalid.parameter(name, "want a number from %d to %d", least, most)
	}
	return n, nil
}

// dryRun reports whether the request must not change anything.
func (c *call) dryRun() (bool, error) {
	switch value := c.query.Get(dryRun); {
	case !c.query.Has(dryRun) || value == "false":
		return false, nil
	case value == "true":
		return true, nil
	}
	return false, invalid.parameter(dryRun, "want true or false")
}

// wait returns how long the client wants to wait.
func (c *call) wait(most time.Duration) (time.Duration, error) {
	if !c.query.Has("wait") {
		return 0, nil
	}
	d, err := duration.Parse(c.query.Get("wait"))
	if err != nil || d < 0 || d > most {
		return 0, invalid.parameter("wait", "want %s, from 0 to %v", durations, most)
	}
	return d, nil
}
