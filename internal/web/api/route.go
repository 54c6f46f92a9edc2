package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// route is what the API does for one method and path.
type route struct {
	method string
	path   string   // with {id} or {topic} in the place of a value
	query  []string // the parameters that it knows
	endpoint
}

// endpoint is what a route does.
type endpoint struct {
	request func() input // a new one; nil: the body is not looked at
	serve   func(*api, *call) (response, error)
}

// plain is an endpoint that looks at no body.
func plain(serve func(*api, *call) (response, error)) endpoint {
	return endpoint{serve: serve}
}

// with is an endpoint whose body is decoded.
func with[T any, R interface {
	*T
	input
}](serve func(*api, *call, R) (response, error)) endpoint {
	return endpoint{
		func() input { return R(new(T)) },
		func(a *api, c *call) (response, error) {
			var r R = new(T)
			if err := decode(c.body, r); err != nil {
				return response{}, err
			}
			return serve(a, c, r)
		},
	}
}

const dryRun = "dry_run"

// routes are all that there are.
var routes []route

func init() { // routes know calls, which know their route
	routes = []route{
		{"POST", "/v1/jobs", nil, with((*api).push)},
		{"POST", "/v1/jobs/batch", nil, with((*api).pushBatch)},
		{"GET", "/v1/jobs/{id}", nil, plain((*api).get)},
		{"DELETE", "/v1/jobs/{id}", nil, plain((*api).remove)},
		{"PATCH", "/v1/jobs/{id}", nil, with((*api).reschedule)},

		{"POST", "/v1/reserve", []string{"wait"}, with((*api).reserve)},
		{"POST", "/v1/ack", nil, with((*api).ackBatch)},
		{"POST", "/v1/extend", nil, with((*api).extendBatch)},
		{"POST", "/v1/jobs/{id}/ack", nil, with((*api).ack)},
		{"POST", "/v1/jobs/{id}/retry", nil, with((*api).retry)},
		{"POST", "/v1/jobs/{id}/release", nil, with((*api).release)},
		{"POST", "/v1/jobs/{id}/extend", nil, with((*api).extend)},
		{"POST", "/v1/jobs/{id}/bury", nil, with((*api).bury)},

		{"GET", "/v1/topics", []string{"contains", "limit", "cursor"}, plain((*api).topics)},
		{"GET", "/v1/topics/{topic}", nil, plain((*api).topic)},
		{"GET", "/v1/topics/{topic}/jobs", []string{"state", "limit", "cursor"}, plain((*api).browse)},
		{"DELETE", "/v1/topics/{topic}/ready", []string{dryRun}, plain((*api).purge)},
		{"GET", "/v1/forecast", []string{"spans"}, plain((*api).forecast)},
		{"GET", "/v1/stats", nil, plain((*api).stats)},

		{"GET", "/v1/dead/{topic}", []string{"limit", "cursor"}, plain((*api).dead)},
		{"GET", "/v1/dead/{topic}/groups", []string{"limit"}, plain((*api).deadGroups)},
		{"POST", "/v1/dead/{topic}/requeue", []string{dryRun}, with((*api).requeue)},
		{"POST", "/v1/dead/{topic}/drop", []string{dryRun}, with((*api).drop)},

		{"GET", "/v1/openapi.yaml", nil, plain((*api).description)},
	}
}

// find finds the request's route, and the values in its path.
func find(r *http.Request) (*route, map[string]string, error) {
	var methods []string
	path := strings.Split(r.URL.EscapedPath(), "/")
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	for i := range routes {
		values, err := routes[i].match(path)
		switch {
		case err != nil:
			return nil, nil, err
		case values == nil:
		case routes[i].method == method:
			return &routes[i], values, nil
		default:
			methods = append(methods, routes[i].method)
			if routes[i].method == http.MethodGet {
				methods = append(methods, http.MethodHead)
			}
		}
	}
	if methods != nil {
		slices.Sort(methods)
		return nil, nil, &problem{kind: badMethod, allow: strings.Join(methods, ", ")}
	}
	return nil, nil, noRoute.problem("there is nothing at this path; /v1/openapi.yaml says what there is")
}

// match returns the values in the path's places, nil if the path is another one.
func (r *route) match(path []string) (map[string]string, error) {
	own := strings.Split(r.path, "/")
	if len(path) != len(own) {
		return nil, nil
	}
	values := map[string]string{}
	for i, part := range own {
		name, isValue := strings.CutPrefix(part, "{")
		if !isValue {
			if part != path[i] {
				return nil, nil
			}
			continue
		}
		name = strings.TrimSuffix(name, "}")
		value, err := url.PathUnescape(path[i])
		if value == "" && err == nil {
			return nil, nil
		}
		if limit := limits[name]; err != nil || len(value) > limit {
			return nil, invalid.parameter(name, "want 1 to %d bytes, percent-encoded", limit)
		}
		values[name] = value
	}
	return values, nil
}

// limits are those of what stands in a path, in bytes.
var limits = map[string]int{"id": maxID, "topic": maxTopic}

// isDryRun reports whether the request asks only what it would do otherwise.
func isDryRun(r *http.Request) bool {
	route, _, err := find(r)
	return err == nil && slices.Contains(route.query, dryRun) && r.URL.Query().Get(dryRun) == "true"
}
