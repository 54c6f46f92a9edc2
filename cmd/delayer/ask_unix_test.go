//go:build !windows

package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mix-basic/delayer/internal/testing/redistest"
)

// What is wrong with --url, its token, or what answers there is said, with an exit code.
func TestWrongURL(t *testing.T) {
	t.Parallel()
	site := newSite(t, redistest.Start(t).Addr, "[http]", "listen = 127.0.0.1:0", "token = 0123456789abcdef", "read_only = true")
	at := urlOf(startBinary(t, site.dir, environment(t), "-c", site.conf))
	foreign := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(foreign.Close)
	dir := t.TempDir()
	write(t, dir+"/token", "0123456789abcdef\n")
	write(t, dir+"/empty", "\n")
	for _, c := range []struct {
		line string
		code int
		says string
	}{
		{"topics --url " + at, 2, "wants a token: set DELAYER_TOKEN, or use --token-file"},
		{"topics --token-file token --url " + at, 0, ""},
		{"topics --token-file token --url " + at + "/", 0, ""},
		{"topics --token-file empty --url " + at, 2, "--token-file: it is empty"},
		{"topics --token-file none --url " + at, 2, "--token-file: open none: "},
		{"push t 0 b --token-file token --url " + at, 6, "read_only is set in [http]"},
		{"topics --url ftp://host", 2, "--url: want the address of a daemon's HTTP server, such as http://host:9277"},
		{"topics --url localhost:9277", 2, "--url: want the address"},
		{"topics --url http://127.0.0.1:1", 3, "no response from http://127.0.0.1:1: "},
		{"topics --url http://u:secret@127.0.0.1:1", 3, "no response from http://u:xxxxx@127.0.0.1:1: "},
		{"topics --url " + foreign.URL, 6, foreign.URL + " does not respond as Delayer's /v1 does: Not Found"},
		{"topics --url " + at + " --redis redis://127.0.0.1:1", 2, "--url says where the daemon is: leave out --redis and -c"},
		{"bpop t --url " + at, 2, "bpop does not work over HTTP: leave out --url"},
		{"--url " + at, 2, "--url and --token-file are for a command"},
	} {
		r := runBinary(t, dir, environment(t), strings.Fields(c.line)...)
		if r.code != c.code || !strings.Contains(r.stderr, c.says) {
			t.Errorf("delayer %s: %+v, want %d and %q", c.line, r, c.code, c.says)
		}
	}
}
