package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/web"
)

// response is what a client receives.
type response struct {
	status  int
	content string // media type
	body    []byte // nil for none
	header  map[string]string
	jobs    []*client.Delivery // released if the client does not receive the answer
}

// ok returns a 200 answer with v as JSON.
func ok(v any) response {
	return response{status: http.StatusOK, content: "application/json", body: encode(v)}
}

// done is an empty answer: success.
var done = response{status: http.StatusNoContent}

func (r response) write(w http.ResponseWriter) error {
	for name, value := range r.header {
		w.Header().Set(name, value)
	}
	return web.Write(w, r.status, r.content, r.body)
}

func encode(v any) []byte {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err) // v consists of texts, numbers, times and lists only
	}
	return b.Bytes()
}

// object is a JSON object that keeps the order of its members.
type object []member

type member struct {
	name  string
	value any
}

// put adds a value. Times have microseconds, like Redis's clock, and are left out if zero. Durations become
// seconds. Negative values mean unknown or endless and become null.
func (o *object) put(name string, value any) {
	unknown := false
	switch v := value.(type) {
	case time.Time:
		if v.IsZero() {
			return
		}
		value = v.UTC().Truncate(time.Microsecond)
	case time.Duration:
		value, unknown = v.Seconds(), v < 0
	case int:
		unknown = v < 0
	case int64:
		unknown = v < 0
	}
	if unknown {
		value = nil
	}
	*o = append(*o, member{name, value})
}

// text adds a text of any bytes: if it is not UTF-8, as base64 under name + "_base64".
func (o *object) text(name, value string) {
	if utf8.ValidString(value) {
		o.put(name, value)
	} else {
		o.put(name+"_base64", []byte(value))
	}
}

// textIfAny adds a text unless it is empty.
func (o *object) textIfAny(name, value string) {
	if value != "" {
		o.text(name, value)
	}
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, m := range o {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, '"'), m.name...), '"', ':')
		b = append(b, bytes.TrimSuffix(encode(m.value), []byte("\n"))...)
	}
	return append(b, '}'), nil
}
