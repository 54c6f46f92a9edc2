package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestCaller(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/fail" {
			io.WriteString(w, `{"code":1,"message":"no"}`)
			return
		}
		io.WriteString(w, `{"code":0,"data":{"id":"x","body":"`+string(body)+`"}}`)
	}))
	defer server.Close()
	all := dialAPIs(server.Listener.Addr().String(), 1)
	defer all.hangUp()
	c := all[0]
	for _, body := range []string{"", "a", strings.Repeat("b", 2000)} {
		if answer, err := c.call("/push", body); err != nil || answer != `{"code":0,"data":{"id":"x","body":"`+body+`"}}` {
			t.Errorf("got %.50q, %v", answer, err)
		}
	}
	if _, err := c.call("/fail", "a"); err == nil || !strings.Contains(err.Error(), "no") {
		t.Errorf("a code of 1 gave %v", err)
	}
	id, err := c.pop()
	if err != nil || id != "x" {
		t.Errorf("popped %q, %v", id, err)
	}
	if err := c.finish(id); err != nil {
		t.Error(err)
	}
}
