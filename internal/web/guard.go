package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// guard decides which requests are admitted.
type guard struct {
	*Server
	known   atomic.Pointer[credentials]
	origins *http.CrossOriginProtection
	guesses guesses
}

// credentials are those that are accepted.
type credentials struct {
	token   [sha256.Size]byte            // zero without a token: no request can match it
	users   map[string][sha256.Size]byte // password hashes
	secured bool                         // a token or a user is configured
}

func newCredentials(token string, users []User) *credentials {
	c := &credentials{users: map[string][sha256.Size]byte{}, secured: token != "" || len(users) > 0}
	if token != "" {
		c.token = sha256.Sum256([]byte(token))
	}
	for _, u := range users {
		c.users[u.Name] = sha256.Sum256([]byte(u.Password))
	}
	return c
}

// protect wraps the area's handler so that only admitted requests reach it.
func (g *guard) protect(a Area) http.Handler {
	if a.Refuse == nil {
		a.Refuse = func(w http.ResponseWriter, _ *http.Request, status int, why string) { http.Error(w, why, status) }
	}
	headers := ofAnswers
	if a.Pages {
		headers = ofPages
	}
	if a.Pages && g.options.TLS {
		headers = maps.Clone(headers)
		headers.Set("Strict-Transport-Security", "max-age=31536000")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), headers)
		known := g.known.Load()
		admitted := !known.secured || known.admits(r)
		reason := g.refusal(a, r, admitted)
		conn, _ := r.Context().Value(connKey{}).(net.Conn)
		if limited := below[*limitedConn](conn); reason == "" && admitted && !(a.Open && !known.secured) && limited != nil && !limited.authenticate() {
			reason = refusedConnection
		}
		if reason != "" {
			g.turnAway(a, w, r, reason)
			return
		}
		ctx, cancel := g.newExchange(r, admitted)
		defer cancel()
		if !admitted {
			leave(w)
		}
		a.Handler.ServeHTTP(w, r.WithContext(ctx))
	})
}

// turnAway answers a request that is not admitted.
func (g *guard) turnAway(a Area, w http.ResponseWriter, r *http.Request, reason string) {
	g.counter.refuse(reason)
	switch reason {
	case refusedSecret:
		g.slowDown(r)
		fallthrough
	case refusedNoSecret:
		w.Header().Set("WWW-Authenticate", `Basic realm="Delayer", charset="UTF-8"`)
	case refusedConnection:
		g.options.Spare.Say(reason, "no room for another connection: all are in use")
	}
	leave(w)
	a.Refuse(w, r, refusals[reason].status, refusals[reason].why)
}

// leave closes the connection after the answer instead of reading the rest of the body.
func leave(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(leaveTime))
}

// leaveTime is how long a client may keep sending on a connection that is about to close.
const leaveTime = time.Second

// slowDown waits if the address has sent too many wrong secrets.
func (g *guard) slowDown(r *http.Request) {
	from := networkOf(r.RemoteAddr)
	g.options.Spare.Say(refusedSecret, fmt.Sprintf("a wrong token or password was shown, from %s", from))
	if !g.guesses.add(from) {
		return
	}
	select {
	case <-time.After(guessDelay):
	case <-g.stopping.Done():
	case <-r.Context().Done():
	}
}

// refusals maps a reason to the status and text of the answer.
var refusals = map[string]struct {
	status int
	why    string
}{
	refusedHost:       {http.StatusMisdirectedRequest, "unknown host name: use an address, or add the name to hosts in [http]"},
	refusedNoSecret:   {http.StatusUnauthorized, notAuthorized},
	refusedSecret:     {http.StatusUnauthorized, notAuthorized},
	refusedOrigin:     {http.StatusForbidden, "refused: another site's page sent the request"},
	refusedReadOnly:   {http.StatusForbidden, "refused: read_only is set in [http]"},
	refusedConnection: {http.StatusServiceUnavailable, "too many connections: all are in use"},
}

const notAuthorized = "not authorized: send Authorization: Bearer with the token, or a user's name and password"

// ofAnswers are headers that stop browsers from rendering or caching an answer.
var ofAnswers = http.Header{
	"Content-Security-Policy": {"default-src 'none'; frame-ancestors 'none'"},
	"X-Content-Type-Options":  {"nosniff"},
	"Cache-Control":           {"no-store"},
}

// ofPages restrict a browser to what our pages need. The referrer policy is not no-referrer: with that, our
// own forms would have the Origin null, like those of other sites.
var ofPages = http.Header{
	"Content-Security-Policy":      {"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'self'; frame-ancestors 'none'"},
	"X-Content-Type-Options":       {"nosniff"},
	"X-Frame-Options":              {"DENY"},
	"Referrer-Policy":              {"same-origin"},
	"Cross-Origin-Opener-Policy":   {"same-origin"},
	"Cross-Origin-Resource-Policy": {"same-origin"},
	"Cache-Control":                {"no-store"},
}

// refusal returns the reason why the request is not admitted, or "".
func (g *guard) refusal(a Area, r *http.Request, admitted bool) (reason string) {
	reads := a.Reads == nil && Safe(r) || a.Reads != nil && a.Reads(r)
	switch {
	case !g.knows(r.Host):
		return refusedHost
	case !a.Open && !admitted && r.Header.Get("Authorization") == "":
		return refusedNoSecret
	case !a.Open && !admitted:
		return refusedSecret
	case g.isForeign(r, reads):
		return refusedOrigin
	case g.options.ReadOnly && !reads:
		return refusedReadOnly
	}
	return ""
}

// Safe reports whether the request's method promises to change nothing.
func Safe(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
}

// isForeign reports whether another site's page sent the request and it changes something, whatever its
// method.
func (g *guard) isForeign(r *http.Request, reads bool) bool {
	if !reads && Safe(r) {
		judged := *r
		judged.Method = http.MethodPost
		r = &judged
	}
	return g.origins.Check(r) != nil
}

// knows reports whether the server is reached by this name. With DNS rebinding another site can point its own
// name here, but it cannot use an IP address or one of our names. HTTP/1.0 requests need no Host.
func (g *guard) knows(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(host, ".")
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || host == "" || strings.EqualFold(host, "localhost") ||
		slices.ContainsFunc(g.options.Hosts, func(own string) bool { return strings.EqualFold(own, host) })
}

// admits reports whether the request presents the token, or a user name with its password. A browser may send
// the token as the password of any user. Hashes are compared in constant time.
func (c *credentials) admits(r *http.Request) bool {
	name, secret, ok := r.BasicAuth()
	if !ok {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return false
		}
		name, secret = "", strings.TrimSpace(token)
	}
	shown := sha256.Sum256([]byte(secret))
	password := c.users[name]
	isToken := subtle.ConstantTimeCompare(shown[:], c.token[:])
	isUser := subtle.ConstantTimeCompare(shown[:], password[:])
	return isToken|isUser == 1
}

const (
	// freeGuesses is how many wrong secrets of an address are answered at once per guessTime; people mistype.
	freeGuesses = 10
	guessTime   = time.Minute
	// guessDelay is how long the answer to each further one is delayed.
	guessDelay = time.Second
	// maxGuessers is how many addresses are counted separately; the others share one count.
	maxGuessers = 4096
)

// guesses counts wrong secrets by address. Correct ones are never delayed, because behind a proxy all clients
// share an address. This slows down sequential guessing; parallel guessing is bounded by the number of
// connections.
type guesses struct {
	mu          sync.Mutex
	now, before map[netip.Addr]int
	since       time.Time
}

// add counts one wrong secret and reports whether there were too many.
func (g *guesses) add(a netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if over := time.Since(g.since); over > guessTime {
		g.before, g.now, g.since = g.now, map[netip.Addr]int{}, time.Now()
		if over > 2*guessTime {
			g.before = nil
		}
	}
	if _, ok := g.now[a]; !ok && len(g.now) >= maxGuessers {
		a = netip.Addr{}
	}
	g.now[a]++
	return g.now[a]+g.before[a] > freeGuesses
}
