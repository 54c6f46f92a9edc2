package dashboard

import (
	"encoding/base64"
	"net/url"
)

// packed are the fields that may hold any bytes. Links and forms carry them as base64.
var packed = map[string]bool{"id": true, "topic": true, "reason": true, "error": true, "selected": true, "schedule": true}

// pack encodes any bytes for a link or form.
func pack(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// link returns a path with a query of alternating names and values; empty values are left out.
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

// unpacked decodes the packed values before it calls serve.
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
