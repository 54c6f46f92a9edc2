package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// MaxHeaders is the largest size of a job's headers as JSON, in bytes.
const MaxHeaders = 4096

var headerName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`)

// HeadersText returns headers as they are stored: a JSON object, sorted by name. Otherwise it says what is wrong with them.
func HeadersText(headers map[string]string) (text, wrong string) {
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		switch value := headers[name]; {
		case !headerName.MatchString(name):
			return "", fmt.Sprintf("the name %s is not 1 to 128 letters, digits, dots, underscores and hyphens", Quote(name))
		case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
			return "", fmt.Sprintf("the value of %s is not UTF-8, or has a zero byte", name)
		}
	}
	b, _ := json.Marshal(headers) // texts can't fail
	if len(b) > MaxHeaders {
		return "", fmt.Sprintf("they have %d bytes as JSON, of %d at most", len(b), MaxHeaders)
	}
	return string(b), ""
}

// HeadersOf reads what HeadersText has returned. A text of anybody else that can't be read must not withhold its job: it counts as no headers.
func HeadersOf(text string) (headers map[string]string) {
	if text != "" && json.Unmarshal([]byte(text), &headers) != nil {
		return nil
	}
	return headers
}
