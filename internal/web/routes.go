package web

import (
	"net/http"
	"slices"
	"strings"
)

// routes finds the handler of a request by its literal path. http.ServeMux would redirect paths that contain
// "." or "..", which may be job IDs, and would answer unknown paths and methods itself, without the guard.
type routes struct {
	known []route
	other http.Handler // handles requests without a route
}

// route is a pattern in http.ServeMux's syntax: an optional method and a path. A path that ends with "/"
// matches everything below it, one that ends with "{$}" only itself.
type route struct {
	pattern, method, path string
	handler               http.Handler
}

func (rs *routes) add(pattern string, handler http.Handler) {
	method, path, ok := strings.Cut(pattern, " ")
	if !ok {
		method, path = "", pattern
	}
	rs.known = append(rs.known, route{pattern, method, path, handler})
}

// fits reports whether the route matches the path, whatever the method.
func (r *route) fits(path string) bool {
	own, _ := strings.CutSuffix(r.path, "{$}")
	return path == own || strings.HasSuffix(r.path, "/") && strings.HasPrefix(path, own)
}

// methods returns the route's methods, or none if it accepts all.
func (r *route) methods() []string {
	switch r.method {
	case "":
		return nil
	case http.MethodGet:
		return []string{http.MethodGet, http.MethodHead}
	}
	return []string{r.method}
}

func (rs *routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var found *route
	for i := range rs.known {
		known := &rs.known[i]
		if known.fits(r.URL.Path) && (known.method == "" || slices.Contains(known.methods(), r.Method)) && (found == nil || len(known.path) > len(found.path)) {
			found = known
		}
	}
	if found == nil {
		rs.other.ServeHTTP(w, r)
		return
	}
	r.Pattern = found.pattern
	found.handler.ServeHTTP(w, r)
}

// noRoute answers 404 for an unknown path, and 405 for a known path with another method.
func (rs *routes) noRoute(w http.ResponseWriter, r *http.Request) {
	var methods []string
	for i := range rs.known {
		if rs.known[i].fits(r.URL.Path) {
			methods = append(methods, rs.known[i].methods()...)
		}
	}
	if methods == nil {
		http.Error(w, "there is no such path", http.StatusNotFound)
		return
	}
	slices.Sort(methods)
	w.Header().Set("Allow", strings.Join(slices.Compact(methods), ", "))
	http.Error(w, "method not allowed: want "+w.Header().Get("Allow"), http.StatusMethodNotAllowed)
}
