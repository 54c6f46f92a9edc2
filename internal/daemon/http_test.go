package daemon

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/mix-basic/delayer/config"
	"github.com/mix-basic/delayer/internal/web"
)

// The HTTP server accepts the host name that it listens on and the configured names.
func TestHTTPHosts(t *testing.T) {
	for listen, want := range map[string][]string{
		"jobs.example.com:9277": {"jobs.example.com", "a", "b"},
		"10.0.0.7:9277":         {"10.0.0.7", "a", "b"},
		"[::1]:9277":            {"::1", "a", "b"},
		":9277":                 {"a", "b"},
		"":                      {"a", "b"},
	} {
		if got := webOptions(config.HTTP{Listen: listen, Hosts: []string{"a", "b"}}, nil).Hosts; !reflect.DeepEqual(got, want) {
			t.Errorf("listen = %s: %q, want %q", listen, got, want)
		}
	}
}

// A hundred failures of one kind are one log line, whatever their port numbers. Each other kind has
// its own line.
func TestFailuresOfTheHTTPServer(t *testing.T) {
	var got []string
	f := &httpServer{spare: web.NewSparing(func(line string) { got = append(got, line) })}
	for n := range 100 {
		f.failed(fmt.Errorf("read tcp 127.0.0.1:%d: i/o timeout", 1000+n))
	}
	f.failed(errors.New("WRONGTYPE of a key"))
	f.failed(errors.New("NOPERM for zadd"))
	want := []string{"a request failed: read tcp 127.0.0.1:1000: i/o timeout", "a request failed: WRONGTYPE of a key", "a request failed: NOPERM for zadd"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
