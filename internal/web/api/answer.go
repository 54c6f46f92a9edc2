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

// response is what a client gets.
type response struct {
	status  int
	content string // its type
	body    []byte // nil: there is none
	header  map[string]string
	jobs    []*client.Delivery // are given back if nobody gets the answer
}

// ok is an answer in JSON.
func ok(v any) response {
	return response{status: http.StatusOK, content: "application/json", body: encode(v)}
}

// done is an answer that says only that.
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
		panic(err) // there are texts, numbers, times and lists of these only
	}
	return b.Bytes()
}

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

// put enters a value: a time to the microsecond, as Redis's clock has it, if there is one; a duration in
// seconds. What is negative is not known, or for ever: it becomes null.
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

// text enters any bytes: what is no UTF-8 as base64, under a name that says so.
func (o *object) text(name, value string) {
	if utf8.ValidString(value) {
		o.put(name, value)
	} else {
		o.put(name+"_base64", []byte(value))
	}
}

// textIfAny enters a text that is not empty.
func (o *object) textIfAny(name, value string) {
	if value != "" {
		o.text(name, value)
	}
}

// MarshalJSON makes JSON of it.
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
