package api

import (
	"net/http"

	"github.com/mix-basic/delayer/client"
	"github.com/mix-basic/delayer/internal/view"
	"github.com/mix-basic/delayer/internal/web"
)

// object is a JSON object.
type object = view.Object

// response is what a client receives.
type response struct {
	status  int
	content string // media type
	body    []byte // nil for none
	header  map[string]string
	jobs    []*client.Delivery // released if the answer cannot be written
}

// responseOf is the response to a handler's result.
func responseOf(result any) response {
	switch result := result.(type) {
	case response:
		return result
	case nil:
		return response{status: http.StatusNoContent}
	}
	return response{status: http.StatusOK, content: "application/json", body: view.Encode(result)}
}

func (r response) write(w http.ResponseWriter) error {
	for name, value := range r.header {
		w.Header().Set(name, value)
	}
	return web.Write(w, r.status, r.content, r.body)
}
