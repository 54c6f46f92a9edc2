package web

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// area answers "in" to admitted requests, otherwise the status and the reason.
func area(patterns ...string) Area {
	return Area{
		Patterns: patterns,
		Handler:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "in") }),
		Refuse: func(w http.ResponseWriter, _ *http.Request, status int, why string) {
			w.WriteHeader(status)
			fmt.Fprintf(w, "%d %s", status, why)
		},
		Reads: func(r *http.Request) bool { return r.URL.Path == "/get" || Safe(r) && r.URL.Path != "/change" },
	}
}

func TestGuard(t *testing.T) {
	const token = "0123456789abcdef"
	open := Options{Hosts: []string{"Delayer"}}
	secured := Options{Token: token, Users: []User{{"alice", "secret"}}}
	readOnly := Options{ReadOnly: true}
	basic := func(name, password string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(name, password) }
	}
	header := func(pairs ...string) func(*http.Request) {
		return func(r *http.Request) {
			for i := 0; i < len(pairs); i += 2 {
				r.Header.Set(pairs[i], pairs[i+1])
			}
		}
	}
	bearer := func(token string) func(*http.Request) { return header("Authorization", "Bearer "+token) }
	host := func(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }
	none := func(*http.Request) {}

	tests := []struct {
		name    string
		options Options
		method  string
		path    string
		change  func(*http.Request)
		want    string // a prefix of the answer
	}{
		{"localhost", open, "GET", "/x", none, "in"},
		{"with a port", open, "GET", "/x", host("localhost:9277"), "in"},
		{"an address", open, "GET", "/x", host("192.0.2.7:80"), "in"},
		{"an IPv6 address", open, "GET", "/x", host("[::1]:9277"), "in"},
		{"an IPv6 address without a port", open, "GET", "/x", host("[::1]"), "in"},
		{"a name of ours", open, "GET", "/x", host("dElayer:9277"), "in"},
		{"a name of ours, absolute", open, "GET", "/x", host("delayer."), "in"},
		{"no name", open, "GET", "/x", host(""), "in"},
		{"rebinding", open, "GET", "/x", host("evil.example"), "421 "},
		{"rebinding, like ours", open, "POST", "/x", host("localhost.evil.example:9277"), "421 "},
		{"rebinding, with an address in the name", open, "GET", "/x", host("127.0.0.1.evil.example"), "421 "},

		{"no token", secured, "GET", "/x", none, "401 "},
		{"the token", secured, "GET", "/x", bearer(token), "in"},
		{"the token, another spelling", secured, "GET", "/x", header("Authorization", "bearer  "+token), "in"},
		{"another token", secured, "GET", "/x", bearer(token + "0"), "401 "},
		{"an empty token", secured, "GET", "/x", bearer(""), "401 "},
		{"no scheme", secured, "GET", "/x", header("Authorization", token), "401 "},
		{"the token as a password", secured, "GET", "/x", basic("me", token), "in"},
		{"a user", secured, "GET", "/x", basic("alice", "secret"), "in"},
		{"a user's wrong password", secured, "GET", "/x", basic("alice", "Secret"), "401 "},
		{"a user without a password", secured, "GET", "/x", basic("alice", ""), "401 "},
		{"an unknown user", secured, "GET", "/x", basic("bob", "secret"), "401 "},
		{"an unknown user without a password", secured, "GET", "/x", basic("bob", ""), "401 "},
		{"only users, no token shown", Options{Users: secured.Users}, "GET", "/x", bearer(""), "401 "},
		{"only users", Options{Users: secured.Users}, "GET", "/x", basic("alice", "secret"), "in"},
		{"open to all", secured, "GET", "/open", bearer(token), "in"},
		{"open to all, but not to other names", secured, "GET", "/open", host("evil.example"), "421 "},

		{"post", open, "POST", "/x", none, "in"},
		{"post of our own page", open, "POST", "/x", header("Sec-Fetch-Site", "same-origin"), "in"},
		{"post of another site's page", open, "POST", "/x", header("Sec-Fetch-Site", "cross-site"), "403 refused: another site"},
		{"post of another port's page", open, "POST", "/x", header("Sec-Fetch-Site", "same-site"), "403 "},
		{"post of an old browser, another site's page", open, "POST", "/x", header("Origin", "https://evil.example"), "403 "},
		{"post of an old browser, our own page", open, "POST", "/x", header("Origin", "http://localhost"), "in"},
		{"post of a file", open, "POST", "/x", header("Origin", "null"), "403 "},
		{"delete of another site's page", open, "DELETE", "/x", header("Sec-Fetch-Site", "cross-site"), "403 "},
		{"a link of another site", open, "GET", "/x", header("Sec-Fetch-Site", "cross-site"), "in"},

		{"read only, get", readOnly, "GET", "/x", none, "in"},
		{"read only, head", readOnly, "HEAD", "/x", none, ""},
		{"a get that changes", open, "GET", "/change", none, "in"},
		{"a get that changes, of another site's page", open, "GET", "/change", header("Sec-Fetch-Site", "cross-site"), "403 refused: another site"},
		{"read only, a get that changes", readOnly, "GET", "/change", none, "403 refused: read_only"},
		{"read only, post", readOnly, "POST", "/x", none, "403 refused: read_only"},
		{"read only, delete", readOnly, "DELETE", "/x", none, "403 refused: read_only"},
		{"read only, a method of its own", readOnly, "PURGE", "/x", none, "403 refused: read_only"},
		{"read only, a post that reads", readOnly, "POST", "/get", none, "in"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			open, pages := area("/open"), area("/")
			open.Open, pages.Pages = true, true
			f := New(test.options, pages, open)
			r := httptest.NewRequest(test.method, "http://localhost"+test.path, nil)
			test.change(r)
			w := httptest.NewRecorder()
			f.ServeHTTP(w, r)
			got := w.Body.String()
			if !strings.HasPrefix(got, test.want) || test.want == "in" && got != "in" {
				t.Errorf("got %d %q, want %q", w.Code, got, test.want)
			}
			if w.Code == http.StatusUnauthorized != (w.Header().Get("WWW-Authenticate") != "") {
				t.Errorf("WWW-Authenticate is %q with %d", w.Header().Get("WWW-Authenticate"), w.Code)
			}
			if refused := w.Code != http.StatusOK; refused != (w.Header().Get("Connection") == "close") {
				t.Errorf("Connection is %q with %d", w.Header().Get("Connection"), w.Code)
			}
			headers := []string{"Content-Security-Policy", "X-Content-Type-Options", "Cache-Control"}
			if test.path != "/open" {
				headers = append(headers, "X-Frame-Options", "Referrer-Policy", "Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy")
			}
			for _, name := range headers {
				if w.Header().Get(name) == "" {
					t.Errorf("no %s", name)
				}
			}
			if csp := w.Header().Get("Content-Security-Policy"); strings.Contains(csp, "unsafe") || !strings.Contains(csp, "default-src 'none'") {
				t.Errorf("Content-Security-Policy: %s", csp)
			}
		})
	}
}

// Pages served over HTTPS require browsers to stay on HTTPS. No other answer does.
func TestOnlyHTTPS(t *testing.T) {
	for _, encrypted := range []bool{false, true} {
		for _, pages := range []bool{false, true} {
			a := area("/")
			a.Pages = pages
			w := httptest.NewRecorder()
			New(Options{TLS: encrypted}, a).ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/", nil))
			if got := w.Header().Get("Strict-Transport-Security") != ""; got != (encrypted && pages) {
				t.Errorf("encrypted %v, pages %v: %v", encrypted, pages, w.Header())
			}
		}
	}
}

func TestRefusalInPlainText(t *testing.T) {
	a := area("/")
	a.Refuse = nil
	w := httptest.NewRecorder()
	New(Options{Token: "0123456789abcdef"}, a).ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/", nil))
	if w.Code != http.StatusUnauthorized || !strings.HasPrefix(w.Body.String(), "not authorized: ") {
		t.Errorf("got %d %q", w.Code, w.Body.String())
	}
}

// Requests without a route pass the guard like any other, and are never redirected.
func TestGuardWithoutARoute(t *testing.T) {
	const token = "0123456789abcdef"
	for _, test := range []struct {
		method, target, host string
		token                bool
		want                 string // status, and the Allow header
	}{
		{"GET", "/nothing", "localhost", true, "404 "},
		{"GET", "/nothing", "localhost", false, "401 "},
		{"GET", "/nothing", "evil.example", true, "421 "},
		{"POST", "/get", "localhost", true, "405 GET, HEAD"},
		{"POST", "/get", "localhost", false, "401 "},
		{"HEAD", "/get", "localhost", true, "200 "},
		{"DELETE", "/pages/x", "localhost", true, "405 GET, HEAD, POST"},
		{"GET", "/pages/../get", "localhost", true, "200 "},
		{"GET", "/pages/.", "localhost", true, "200 "},
		{"GET", "/./get", "localhost", true, "404 "},
		{"GET", "/pages", "localhost", true, "404 "},
		{"GET", "//get", "localhost", true, "404 "},
		{"GET", "/", "localhost", true, "200 "},
		{"OPTIONS", "*", "localhost", true, "404 "},
		{"OPTIONS", "*", "localhost", false, "401 "},
		{"OPTIONS", "*", "evil.example", true, "421 "},
		{"GET", "*", "localhost", false, "401 "},
		{"CONNECT", "localhost:80", "localhost", false, "401 "},
	} {
		t.Run(fmt.Sprintf("%s %s of %s, token %v", test.method, test.target, test.host, test.token), func(t *testing.T) {
			pages := area("GET /pages/", "POST /pages/", "GET /{$}")
			pages.Pages = true
			l := newLimited(t, 2)
			background(t, New(Options{Token: token, Limit: l.Limited}, area("GET /get"), pages), l)
			conn := l.connect("127.0.0.1")
			secret := ""
			if test.token {
				secret = bearer
			}
			fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", test.method, test.target, test.host, secret)
			response, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: test.method})
			check(t, err)
			if got := fmt.Sprint(response.StatusCode, " ", response.Header.Get("Allow")); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if refused := test.want[0] == '4' && (test.want[:3] == "401" || test.want[:3] == "421"); response.Close != refused {
				t.Errorf("the connection closes: %v", response.Close)
			}
			for _, name := range []string{"Content-Security-Policy", "X-Content-Type-Options", "Cache-Control"} {
				if response.Header.Get(name) == "" {
					t.Errorf("no %s", name)
				}
			}
		})
	}
}
