package web

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// routes finds the handler of a request by the first step of its path, as it was sent. http.ServeMux would redirect paths that contain
// "." or "..", which may be job IDs, and would answer unknown paths and methods itself, without the guard.
type routes struct {
	known map[string]map[string]http.Handler // by first step, then by method; "" stands for any method
	other http.Handler                       // handles requests without a route
}

// add adds a pattern of an Area.
func (rs *routes) add(pattern string, handler http.Handler) {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = "", pattern
	}
	if rs.known[path] == nil {
		rs.known[path] = map[string]http.Handler{}
	}
	rs.known[path][method] = handler
	if method == http.MethodGet {
		rs.known[path][http.MethodHead] = handler
	}
}

// firstStep returns "/" and the path's first name, and another "/" if the path goes on.
func firstStep(path string) string {
	name, _, below := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	if below {
		name += "/"
	}
	return "/" + name
}

func (rs *routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	step := firstStep(r.URL.Path)
	handler, found := rs.known[step][r.Method]
	if !found {
		handler, found = rs.known[step][""]
	}
	if !found {
		rs.other.ServeHTTP(w, r)
		return
	}
	r.Pattern = step
	handler.ServeHTTP(w, r)
}

// noRoute answers 404 for an unknown path, and 405 for a known path with another method.
func (rs *routes) noRoute(w http.ResponseWriter, r *http.Request) {
	methods := slices.Sorted(maps.Keys(rs.known[firstStep(r.URL.Path)]))
	if methods == nil {
		http.Error(w, "there is no such path", http.StatusNotFound)
		return
	}
	w.Header().Set("Allow", strings.Join(methods, ", "))
	http.Error(w, "method not allowed: want "+w.Header().Get("Allow"), http.StatusMethodNotAllowed)
}
