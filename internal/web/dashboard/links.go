package dashboard

import (
	"encoding/base64"
	"net/url"
)

// packed are the names whose values hold any bytes. In links and forms they are base64.
var packed = map[string]bool{"id": true, "topic": true, "reason": true, "error": true, "selected": true, "schedule": true}

// pack makes a text of any bytes fit for a link or a form.
func pack(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// link is a path with a query of names and values. What is empty is left out.
func link(path string, namesAndValues ...string) string {
	query := url.Values{}
	for i := 0; i+1 < len(namesAndValues); i += 2 {
		name, value := namesAndValues[i], namesAndValues[i+1]
		if packed[name] {
			value = pack(value)
		}
		if value != "" {
			query.Set(name, value)
		}
	}
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// unpacked serves with the values as they were before they were packed.
func unpacked(serve func(*page) error) func(*page) error {
	return func(p *page) error {
		for name := range packed {
			for i, text := range p.form[name] {
				value, err := base64.RawURLEncoding.DecodeString(text)
				if err != nil {
					return &wrong{"wrong.base64", name, ""}
				}
				p.form[name][i] = string(value)
			}
		}
		return serve(p)
	}
}
