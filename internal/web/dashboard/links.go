package dashboard

import (
	"net/url"
	"strings"
)

// Links are relative to the dashboard's root, which each page names (see page.Root), so that it may lie behind any path of a
// reverse proxy. They carry topics, IDs and whatever else may hold any bytes in percent-encoding.
//
// A form field can't: browsers change line breaks and what is not UTF-8. So the value of a field that may hold any bytes is
// packed, and the field's name ends with "*" (see unpack).

// link returns a path with a query of alternating names and values; empty values are left out.
func link(path string, namesAndValues ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		if name, value := namesAndValues[i], namesAndValues[i+1]; value != "" {
			query.Set(name, value)
		}
	}
	return linkTo(path, query)
}

func linkTo(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + strings.ReplaceAll(query.Encode(), "+", "%20")
}

// pack encodes any bytes for a form field or an attribute.
func pack(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }

// unpack decodes the packed fields of a form.
func unpack(form url.Values) error {
	for field, values := range form {
		name, is := strings.CutSuffix(field, "*")
		if !is {
			continue
		}
		for i := range values {
			value, err := url.PathUnescape(values[i])
			if err != nil {
				return err
			}
			values[i] = value
		}
		form[name] = values
		delete(form, field)
	}
	return nil
}

// Root is the relative address of the dashboard's root.
func (p *page) Root() string {
	above := strings.Count(p.r.URL.EscapedPath(), "/") - 1
	if above <= 0 {
		return "./"
	}
	return strings.Repeat("../", above)
}

// Self links to this page.
func (p *page) Self() string { return fromRoot(p.r.URL) }

// With links to this page with another choice.
func (p *page) With(name, value string) string {
	query := p.at.Query()
	query.Set(name, value)
	return linkTo(fromRoot(&url.URL{Path: p.at.Path}), query)
}

// fromRoot returns the address, in which the path begins with "/", relative to the root.
func fromRoot(u *url.URL) string { return strings.TrimPrefix(u.RequestURI(), "/") }
