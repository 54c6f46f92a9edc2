package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/web"
)

// call is a request as its handler sees it: decoded, with everything in the API at hand.
type call struct {
	*api
	w     http.ResponseWriter
	r     *http.Request
	path  map[string]string // values in the path
	query values            // parameters; a missing one has its default
	body  values            // nil if the route has none
}

// read decodes the request's query and body.
func (c *call) read(route *Route) (err error) {
	if c.query, err = readQuery(c.r, route.Query); err != nil {
		return err
	}
	if route.Body == nil {
		if c.r.ContentLength != 0 {
			return badRequest.problem("the request must have no body")
		}
		return nil
	}
	if err := checkContentType(c.r.Header); err != nil {
		return err
	}
	body, err := web.ReadBody(c.w, c.r, c.MaxBody)
	switch {
	case errors.Is(err, web.ErrTooLarge):
		return tooLarge.problem("the body has more than %d bytes, the limit set by max_body in [http]", c.MaxBody)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return badRequest.problem("the body is shorter than its Content-Length")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return slow.problem("the body did not arrive in time")
	case err != nil:
		return badRequest.problem("the body can't be read: want a Content-Length, or chunks as in HTTP/1.1")
	}
	c.body, err = decode(body, route.Body)
	return err
}

// Parameter is a query parameter.
type Parameter struct {
	Name    string
	missing any // the value if it is not given; nil if it is required
	read    func(text string) (value any, ok bool)
	want    string // what would be valid
}

// plain is a parameter that may be any text.
func plain(name, missing string) Parameter {
	return Parameter{Name: name, missing: missing, read: func(text string) (any, bool) { return text, true }}
}

// flag is a parameter that may be true or false; without it, it is false.
func flag(name string) Parameter {
	return Parameter{Name: name, missing: false, read: readBool, want: "true or false"}
}

// count is a parameter for an int from 1 to most.
func count(name string, missing, most int) Parameter {
	return Parameter{Name: name, missing: missing, want: fmt.Sprint("a number from 1 to ", most), read: func(text string) (any, bool) {
		n, err := strconv.Atoi(text)
		return n, err == nil && n >= 1 && n <= most
	}}
}

// oneOf is a required parameter with one of the texts.
func oneOf(name string, texts ...string) Parameter {
	return Parameter{Name: name, want: strings.Join(texts, ", "), read: func(text string) (any, bool) { return text, slices.Contains(texts, text) }}
}

// optional is the parameter with a value for when it is not given.
func optional(p Parameter, missing any) Parameter {
	p.missing = missing
	return p
}

// sized is a required parameter of 1 to most bytes.
func sized(name string, most int, want string) Parameter {
	return Parameter{Name: name, want: fmt.Sprintf("%s, of up to %d bytes", want, most), read: func(text string) (any, bool) { return text, text != "" && len(text) <= most }}
}

// instant is an optional parameter for a time.Time.
func instant(name string) Parameter {
	return Parameter{Name: name, missing: time.Time{}, want: times, read: readTime}
}

func readBool(text string) (value any, ok bool) {
	return text == "true", text == "true" || text == "false"
}

// readQuery reads the query. A parameter may be given once.
func readQuery(r *http.Request, known []Parameter) (values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest.problem("the query can't be read: want name=value pairs, percent-encoded, separated by &")
	}
	var names []string
	for _, p := range known {
		names = append(names, p.Name)
	}
	for name, given := range query {
		switch {
		case len(known) == 0:
			return nil, badRequest.parameter(name, "this request takes no parameters")
		case !slices.Contains(names, name):
			return nil, badRequest.parameter(name, "there is no such parameter here: want %s", strings.Join(names, ", "))
		case len(given) > 1:
			return nil, badRequest.parameter(name, "it is given %d times", len(given))
		}
	}
	got := values{}
	for _, p := range known {
		value, ok := p.missing, p.missing != nil
		if query.Has(p.Name) {
			value, ok = p.read(query.Get(p.Name))
		}
		if !ok {
			return nil, invalid.parameter(p.Name, "want %s", p.want)
		}
		got[p.Name] = value
	}
	return got, nil
}

// checkContentType also rejects HTML forms of other sites.
func checkContentType(h http.Header) error {
	media, parameters, err := mime.ParseMediaType(h.Get("Content-Type"))
	charset := parameters["charset"]
	switch {
	case err != nil || media != "application/json":
		return badType.problem("want Content-Type: application/json")
	case !slices.Contains([]string{"", "utf-8", "utf8"}, strings.ToLower(charset)):
		return badType.problem("want the body in UTF-8")
	case !slices.Contains([]string{"", "identity"}, strings.ToLower(h.Get("Content-Encoding"))):
		return badType.problem("want a body without Content-Encoding")
	}
	return nil
}

func (c *call) id() string    { return c.path["id"] }
func (c *call) topic() string { return c.path["topic"] }
func (c *call) name() string  { return c.path["name"] }

func (c *call) context() context.Context { return c.r.Context() }
