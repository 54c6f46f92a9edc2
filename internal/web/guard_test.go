package web

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
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

var (
	openToAll       = Options{Hosts: []string{"Delayer"}}
	withSecrets     = Options{Token: token, Users: []User{{"alice", "secret"}}}
	readOnlyOptions = Options{ReadOnly: true}
)

func basicAuth(name, password string) func(*http.Request) {
	return func(r *http.Request) { r.SetBasicAuth(name, password) }
}

func withHeader(pairs ...string) func(*http.Request) {
	return func(r *http.Request) {
		for i := 0; i < len(pairs); i += 2 {
			r.Header.Set(pairs[i], pairs[i+1])
		}
	}
}

func bearerToken(token string) func(*http.Request) {
	return withHeader("Authorization", "Bearer "+token)
}

func ofHost(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

func unchanged(*http.Request) {}

var guardCases = []struct {
	name    string
	options Options
	method  string
	path    string
	change  func(*http.Request)
	want    string // a prefix of the answer
}{
	{"localhost", openToAll, "GET", "/x", unchanged, "in"},
	{"an address", openToAll, "GET", "/x", ofHost("192.0.2.7:80"), "in"},
	{"an IPv6 address", openToAll, "GET", "/x", ofHost("[::1]:9277"), "in"},
	{"a name of ours", openToAll, "GET", "/x", ofHost("dElayer:9277"), "in"},
	{"a name of ours, absolute", openToAll, "GET", "/x", ofHost("delayer."), "in"},
	{"no name", openToAll, "GET", "/x", ofHost(""), "in"},
	{"rebinding", openToAll, "GET", "/x", ofHost("evil.example"), "421 "},
	{"rebinding, with an address in the name", openToAll, "GET", "/x", ofHost("127.0.0.1.evil.example"), "421 "},

	{"no token", withSecrets, "GET", "/x", unchanged, "401 "},
	{"the token", withSecrets, "GET", "/x", bearerToken(token), "in"},
	{"the token, another spelling", withSecrets, "GET", "/x", withHeader("Authorization", "bearer  "+token), "in"},
	{"an empty token", withSecrets, "GET", "/x", bearerToken(""), "401 "},
	{"no scheme", withSecrets, "GET", "/x", withHeader("Authorization", token), "401 "},
	{"the token as a password", withSecrets, "GET", "/x", basicAuth("me", token), "in"},
	{"a user", withSecrets, "GET", "/x", basicAuth("alice", "secret"), "in"},
	{"a user's wrong password", withSecrets, "GET", "/x", basicAuth("alice", "Secret"), "401 "},
	{"an unknown user without a password", withSecrets, "GET", "/x", basicAuth("bob", ""), "401 "},
	{"only users, no token shown", Options{Users: withSecrets.Users}, "GET", "/x", bearerToken(""), "401 "},
	{"open to all", withSecrets, "GET", "/open", bearerToken(token), "in"},
	{"open to all, but not to other names", withSecrets, "GET", "/open", ofHost("evil.example"), "421 "},

	{"post", openToAll, "POST", "/x", unchanged, "in"},
	{"post of our own page", openToAll, "POST", "/x", withHeader("Sec-Fetch-Site", "same-origin"), "in"},
	{"post of another site's page", openToAll, "POST", "/x", withHeader("Sec-Fetch-Site", "cross-site"), "403 refused: another site"},
	{"post of an old browser, another site's page", openToAll, "POST", "/x", withHeader("Origin", "https://evil.example"), "403 "},
	{"post of an old browser, our own page", openToAll, "POST", "/x", withHeader("Origin", "http://localhost"), "in"},
	{"post of a file", openToAll, "POST", "/x", withHeader("Origin", "null"), "403 "},
	{"a link of another site", openToAll, "GET", "/x", withHeader("Sec-Fetch-Site", "cross-site"), "in"},

	{"read only, get", readOnlyOptions, "GET", "/x", unchanged, "in"},
	{"a get that changes", openToAll, "GET", "/change", unchanged, "in"},
	{"a get that changes, of another site's page", openToAll, "GET", "/change", withHeader("Sec-Fetch-Site", "cross-site"), "403 refused: another site"},
	{"read only, a get that changes", readOnlyOptions, "GET", "/change", unchanged, "403 refused: read_only"},
	{"read only, post", readOnlyOptions, "POST", "/x", unchanged, "403 refused: read_only"},
	{"read only, a post that reads", readOnlyOptions, "POST", "/get", unchanged, "in"},
}

func TestGuard(t *testing.T) {
	for _, test := range guardCases {
		t.Run(test.name, func(t *testing.T) {
			openToAll, pages := area("/open"), area("/x", "/change", "/get")
			openToAll.Open, pages.Pages = true, true
			f := New(test.options, pages, openToAll)
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
	for _, test := range []struct {
		method, target, host string
		token                bool
		want                 string // status, and the Allow header
	}{
		{"GET", "/nothing", "localhost", true, "404 "},
		{"GET", "/nothing", "localhost", false, "401 "},
		{"POST", "/get", "localhost", true, "405 GET, HEAD"},
		{"POST", "/get", "localhost", false, "401 "},
		{"DELETE", "/pages/x", "localhost", true, "405 GET, HEAD, POST"},
		{"GET", "/pages/../get", "localhost", true, "200 "},
		{"GET", "/./get", "localhost", true, "404 "},
		{"GET", "//get", "localhost", true, "404 "},
		{"GET", "/", "localhost", true, "200 "},
		{"OPTIONS", "*", "localhost", true, "404 "},
		{"OPTIONS", "*", "localhost", false, "401 "},
		{"CONNECT", "localhost:80", "localhost", false, "401 "},
	} {
		t.Run(fmt.Sprintf("%s %s of %s, token %v", test.method, test.target, test.host, test.token), func(t *testing.T) {
			pages := area("GET /pages/", "POST /pages/", "GET /")
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

// Each address has some free guesses. Further guesses are reported until the time is over. Other addresses
// are unaffected, and the number of stored addresses is bounded.
func TestGuesses(t *testing.T) {
	var g guesses
	a, b := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	for n := range freeGuesses + 2 {
		if got, want := g.add(a), n >= freeGuesses; got != want {
			t.Errorf("guess %d: too many is %v, want %v", n+1, got, want)
		}
	}
	if g.add(b) {
		t.Error("another address is one too many")
	}
	g.since = g.since.Add(-guessTime)
	if !g.add(a) {
		t.Error("a minute later all is forgotten")
	}
	g.since = g.since.Add(-2 * guessTime)
	if g.add(a) {
		t.Error("two minutes later nothing is forgotten")
	}
	for n := range 2 * maxGuessers {
		g.add(netip.AddrFrom4([4]byte{10, 0, byte(n >> 8), byte(n)}))
	}
	if len(g.now) > maxGuessers+1 {
		t.Errorf("%d addresses are kept", len(g.now))
	}
	if !g.add(b.Next()) {
		t.Error("addresses that can't be told apart are not counted together")
	}
}

// Repeated wrong secrets are answered slowly, counted and logged. A correct one is never delayed, even from
// the same address.
func TestGuessing(t *testing.T) {
	l := newLimited(t, 100)
	lines := make(chan string, 9)
	spare := NewSparing(func(line string) { lines <- line })
	spare.every = time.Hour // keeps the timer from writing another line
	f := New(Options{Token: token, Limit: l.Limited, Spare: spare}, area("/x"))
	background(t, f, l)
	began := time.Now()
	var last net.Conn
	for n := range freeGuesses + 1 {
		last = l.send("127.0.0.2", "/x", fmt.Sprintf("Authorization: Bearer wrong%d\r\n", n))
		if n < freeGuesses {
			l.answered(last, 401)
		}
	}
	l.answered(l.send("127.0.0.2", "/x", bearer), 200)
	l.answered(last, 401)
	if took := time.Since(began); took < guessDelay {
		t.Errorf("all answers took %v", took)
	}
	l.answered(l.send("127.0.0.2", "/x"), 401) // a request without a secret is not a guess
	if c := f.Counts(); c.Refused[refusedSecret] != freeGuesses+1 || c.Refused[refusedNoSecret] != 1 || c.Requests[Answered{"/x", 401}] != freeGuesses+2 {
		t.Errorf("%+v", c)
	}
	spare.again(refusedSecret)
	want := []string{"a wrong token or password was shown, from 127.0.0.2", fmt.Sprintf("a wrong token or password was shown, from 127.0.0.2: %d more times within 1h", freeGuesses)}
	if got := []string{<-lines, <-lines}; !slices.Equal(got, want) || len(lines) > 0 {
		t.Errorf("got %q and %d more, want %q", got, len(lines), want)
	}
}

// The first line of a kind is written at once, the next one a minute later with a count, as long as lines
// keep coming.
func TestSparing(t *testing.T) {
	var got []string
	s := NewSparing(func(line string) { got = append(got, line) })
	s.every = time.Hour
	s.Say("a", "a1")
	s.Say("b", "b1")
	s.Say("a", "a2")
	s.again("a")
	s.again("b")
	s.Say("a", "a3")
	s.Say("a", "a4")
	s.again("a")
	s.again("a")
	s.Say("a", "a5")
	s.Say("b", "b2")
	want := []string{"a1", "b1", "a2: once more within 1h", "a4: 2 more times within 1h", "a5", "b2"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	got = nil
	for n := range 2 * maxKinds {
		s.Say(fmt.Sprint("kind ", n), "line")
	}
	if len(got) != maxKinds-1 || len(s.kinds) > maxKinds+1 { // a, b, and one for all further kinds
		t.Errorf("%d lines, %d kinds", len(got), len(s.kinds))
	}
}

// The timer also writes what was suppressed.
func TestSparingTimer(t *testing.T) {
	got := make(chan string, 9)
	s := NewSparing(func(line string) { got <- line })
	s.every = time.Millisecond
	s.Say("a", "first")
	s.Say("a", "second")
	if first, second := <-got, <-got; first != "first" || second != "second: once more within 1ms" && second != "second" {
		t.Errorf("got %q, %q", first, second)
	}
}

// Failed handshakes are counted and rate-limited in the log. Other messages of net/http are logged
// unchanged.
func TestHandshakes(t *testing.T) {
	certificate := httptest.NewTLSServer(nil)
	defer certificate.Close()
	lines := make(chan string, 99)
	l := newLimited(t, 10)
	f := New(Options{Limit: l.Limited, Spare: NewSparing(func(line string) { lines <- line }), TLS: true}, area("/"))
	background(t, f, tls.NewListener(l, certificate.TLS))
	for range 20 {
		conn := l.send("127.0.0.1", "")
		io.WriteString(conn, "nonsense, but long enough")
		io.ReadAll(conn)
	}
	until(t, "all are counted", func() bool { return f.Counts().Refused[refusedHandshake] == 20 })
	if line := <-lines; len(lines) > 0 || line[:35] != "TLS handshake failed with 127.0.0.1" {
		t.Errorf("got %q, and %d more", line, len(lines))
	}

	d := &tls.Dialer{NetDialer: &net.Dialer{}, Config: &tls.Config{InsecureSkipVerify: true}}
	conn, err := d.Dial("tcp", l.Addr().String())
	check(t, err)
	defer conn.Close()
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
	l.answered(conn, 200)
	if c := f.Counts(); c.Authenticated != 1 || c.Requests[Answered{"/", 200}] != 1 {
		t.Errorf("%+v", c)
	}
}
