package api

import "strings"

// Described is what openapi.yaml has to describe; a test compares the two.
type Described struct {
	Routes   []Route
	Problems []string // the types of all problems
}

// Route is a route, and what it knows of a request.
type Route struct {
	Method, Path string
	Parameters   []string // of the path, and the query
	Body         Fields   // nil: there is no body
}

// Fields are those of an object; with those of each element, if one is a list of objects.
type Fields map[string]Fields

// Describe is all that there is.
func Describe() Described {
	var d Described
	for _, r := range routes {
		described := Route{Method: r.method, Path: r.path, Parameters: r.query}
		for part := range strings.SplitSeq(r.path, "/") {
			if name, isValue := strings.CutPrefix(part, "{"); isValue {
				described.Parameters = append([]string{strings.TrimSuffix(name, "}")}, described.Parameters...)
			}
		}
		if r.request != nil {
			described.Body = r.request().fields().describe()
		}
		d.Routes = append(d.Routes, described)
	}
	for _, k := range kinds {
		d.Problems = append(d.Problems, k.uri())
	}
	return d
}

func (f fields) describe() Fields {
	all := Fields{}
	for name, field := range f {
		all[name] = nil
		if field.element != nil {
			all[name] = field.element().fields().describe()
		}
	}
	return all
}
