package api

import (
	_ "embed"
	"net/http"

	"github.com/mix-basic/delayer/internal/store"
	"github.com/mix-basic/delayer/internal/view"
)

func (a *api) stats(c *call) (response, error) {
	counts, err := a.inspector.Counts(c.context())
	if err != nil {
		return response{}, err
	}
	nodes, err := a.inspector.Info(c.context())
	if err != nil {
		return response{}, err
	}
	servers, err := a.inspector.Servers(c.context())
	if err != nil && !store.Refused(err) && counts.Broken() == nil {
		return response{}, err
	}
	return ok(view.Stats(counts, nodes, servers, err)), nil
}

//go:embed openapi.yaml
var openapi []byte

func (a *api) description(*call) (response, error) {
	return response{status: http.StatusOK, content: "application/yaml", body: openapi}, nil
}
