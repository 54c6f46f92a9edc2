package openapitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/inspect"
	"github.com/mix-basic/delayer/internal/testing/clienttest"
	"github.com/mix-basic/delayer/internal/testing/redistest"
	"github.com/mix-basic/delayer/internal/web"
	"github.com/mix-basic/delayer/internal/web/api"
	"github.com/mix-basic/delayer/server"
)

// prober makes requests and checks each answer against the description.
type prober struct {
	*client.Client
	t      *testing.T
	redis  *redistest.Server
	router routers.Router
	doc    *openapi3.T
	seen   map[string]map[int]bool // statuses of the answers, by operation
	types  map[string]bool         // types of problems
	// maxWork is the option for the areas created next.
	maxWork time.Duration
}

// secret is the token of servers that have one.
const secret = "0123456789abcdef"

func newProber(t *testing.T) *prober {
	t.Helper()
	p := &prober{t: t, doc: description(t), redis: redistest.Start(t), seen: map[string]map[int]bool{}, types: map[string]bool{}}
	var err error
	if p.router, err = gorillamux.NewRouter(p.doc); err != nil {
		t.Fatal(err)
	}
	p.Client = p.open(client.PoolOptions{Addr: p.redis.Addr})
	return p
}

func (p *prober) open(o client.PoolOptions) *client.Client {
	c := redistest.Must(client.OpenPool(o))
	p.t.Cleanup(func() { c.Close() })
	return c
}

// front returns the handler of a server on that pool.
func (p *prober) front(o web.Options, pool client.PoolOptions) http.Handler {
	return web.New(o, p.area(pool, p.open(pool)))
}

func (p *prober) area(o client.PoolOptions, c *client.Client) web.Area {
	r := redistest.Must(client.Connect(o))
	p.t.Cleanup(func() { r.Close() })
	return api.New(c, inspect.New(clienttest.Jobs(r, "")), api.Options{MaxBody: maxBody, MaxWait: time.Minute, MaxWork: p.maxWork})
}

// usual returns the HTTP server with a working Redis.
func (p *prober) usual() http.Handler {
	return p.front(web.Options{}, client.PoolOptions{Addr: p.redis.Addr})
}

// maxBody is the maximum size of a body.
const maxBody = 10 << 10

// request is a request to send.
type request struct {
	method, path, body string
	header             map[string]string
	change             func(*http.Request) *http.Request // may be nil
}

// make creates the request without applying change.
func (r request) make() *http.Request {
	made := httptest.NewRequest(r.method, r.path, strings.NewReader(r.body))
	if r.body != "" {
		made.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.header {
		made.Header.Set(name, value)
	}
	return made
}

func (r request) with(change func(*http.Request) *http.Request) request {
	r.change = change
	return r
}

// ask sends a request and checks the answer.
func (p *prober) ask(h http.Handler, r request, want int) string {
	p.t.Helper()
	made := r.make()
	made.Host = "localhost"
	if r.change != nil {
		made = r.change(made)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, made)
	name := r.method + " " + r.path
	if w.Code != want {
		p.t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, want)
		return w.Body.String()
	}
	if err := p.check(r, w); err != nil {
		p.t.Errorf("%s: %d %s: %v", name, w.Code, w.Body, err)
	}
	return w.Body.String()
}

// check compares an answer with the description and, if the request was accepted, the request, too.
func (p *prober) check(r request, w *httptest.ResponseRecorder) error {
	ctx := context.Background()
	made := r.make()
	route, parameters, err := p.router.FindRoute(made)
	if err != nil {
		return err
	}
	in := &openapi3filter.RequestValidationInput{Request: made, PathParams: parameters, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true}}
	if w.Code < 400 {
		if err := openapi3filter.ValidateRequest(ctx, in); err != nil {
			return fmt.Errorf("the request was done, but is not as described: %w", err)
		}
		if body := route.Operation.RequestBody; body != nil {
			if err := checkOnes(body.Value.Content["application/json"].Schema.Value, r.body); err != nil {
				return fmt.Errorf("the request was done, but is not as described: %w", err)
			}
		}
		if content := route.Operation.Responses.Status(w.Code).Value.Content["application/json"]; content != nil {
			if err := checkOnes(content.Schema.Value, w.Body.String()); err != nil {
				return err
			}
		}
	} else {
		var problem struct{ Type string }
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
			return err
		}
		p.types[problem.Type] = true
	}
	operation := r.method + " " + route.Path
	if p.seen[operation] == nil {
		p.seen[operation] = map[int]bool{}
	}
	p.seen[operation][w.Code] = true
	return openapi3filter.ValidateResponse(ctx, &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: w.Code, Header: w.Header(),
		Body: io.NopCloser(bytes.NewReader(w.Body.Bytes())), Options: in.Options})
}

// check fails the test on an error.
var check = redistest.Check

// serve runs a server until it appears in the statistics.
func (p *prober) serve(h http.Handler) {
	p.t.Helper()
	defer redistest.Background(p.t, clienttest.Server(p.redis.Pool(), server.Options{}).Run)()
	redistest.Until(p.t, "the server is in the statistics", func() bool {
		return !strings.Contains(p.ask(h, request{method: "GET", path: "/v1/stats"}, 200), `"servers":[]`)
	})
}

// checkOnes checks the described groups of fields of which exactly one, or at most one, may be
// present. JSON Schema's own keywords (oneOf, not) make client generators produce poor code.
func checkOnes(schema *openapi3.Schema, body string) error {
	var value any
	if schema == nil || body == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		return err
	}
	return checkValue(schema, value)
}

func checkValue(schema *openapi3.Schema, value any) error {
	switch value := value.(type) {
	case []any:
		for _, element := range value {
			if err := checkValue(schema.Items.Value, element); err != nil {
				return err
			}
		}
	case map[string]any:
		for extension, least := range map[string]int{"x-exactly-one": 1, "x-at-most-one": 0} {
			groups, _ := schema.Extensions[extension].([]any)
			for _, group := range groups {
				n := 0
				for _, name := range group.([]any) {
					if _, is := value[name.(string)]; is {
						n++
					}
				}
				if n < least || n > 1 {
					return fmt.Errorf("%s: there are %d of %v in %v", extension, n, group, value)
				}
			}
		}
		for name, of := range schema.Properties {
			if field, is := value[name]; is && of.Value != nil {
				if err := checkValue(of.Value, field); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
