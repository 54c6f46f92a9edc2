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
	"time"
)

// guard decides who is let in.
type guard struct {
	*Front
	token   [sha256.Size]byte            // zero, which nobody can show, if there is none
	users   map[string][sha256.Size]byte // passwords
	secured bool                         // there is a token or a user
	hosts   []string
	origins *http.CrossOriginProtection
	guesses guesses
}

func newGuard(f *Front) *guard {
	o := f.options
	g := &guard{
		Front: f, users: map[string][sha256.Size]byte{}, secured: o.Token != "" || len(o.Users) > 0,
		hosts: []string{"localhost"}, origins: http.NewCrossOriginProtection(),
	}
	if o.Token != "" {
		g.token = sha256.Sum256([]byte(o.Token))
	}
	for _, u := range o.Users {
		g.users[u.Name] = sha256.Sum256([]byte(u.Password))
	}
	for _, host := range o.Hosts {
		g.hosts = append(g.hosts, strings.ToLower(host))
	}
	return g
}

// protect lets in whom the guard knows.
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
		admitted := !g.secured || g.admits(r)
		reason := g.refusal(a, r, admitted)
		conn, _ := r.Context().Value(connKey{}).(net.Conn)
		if limited := below[*limitedConn](conn); reason == "" && admitted && !(a.Open && !g.secured) && limited != nil && !limited.know() {
			reason = refusedStranger
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

// turnAway answers a request that is not let in.
func (g *guard) turnAway(a Area, w http.ResponseWriter, r *http.Request, reason string) {
	g.counter.refuse(reason)
	switch reason {
	case refusedSecret:
		g.slowDown(r)
		fallthrough
	case refusedNoSecret:
		w.Header().Set("WWW-Authenticate", `Basic realm="Delayer", charset="UTF-8"`)
	case refusedStranger:
		g.options.Spare.Say(reason, "no room for another connection: all are in use")
	}
	leave(w)
	a.Refuse(w, r, refusals[reason].status, refusals[reason].why)
}

// leave has the connection closed behind the answer. What is left of the body is not worth reading.
func leave(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	http.NewResponseController(w).SetReadDeadline(time.Now().Add(leaveTime))
}

// leaveTime is how long a client whose connection is to be closed may go on sending.
const leaveTime = time.Second

// slowDown waits, if there were many wrong secrets from there.
func (g *guard) slowDown(r *http.Request) {
	var from netip.Addr
	if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		from = networkOf(at.Addr())
	}
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

// refusals are what those are told who are not let in, by the reason.
var refusals = map[string]struct {
	status int
	why    string
}{
	refusedHost:     {http.StatusMisdirectedRequest, "this host's name is not known here: ask by address, or add the name to hosts in [http]"},
	refusedNoSecret: {http.StatusUnauthorized, notAuthorized},
	refusedSecret:   {http.StatusUnauthorized, notAuthorized},
	refusedOrigin:   {http.StatusForbidden, "refused: the request comes from another site's page"},
	refusedReadOnly: {http.StatusForbidden, "refused: read_only is set in [http]"},
	refusedStranger: {http.StatusServiceUnavailable, "there are too many connections: all are in use"},
}

const notAuthorized = "not authorized: send Authorization: Bearer with the token, or a user's name and password"

// ofAnswers are headers that keep a browser from making a page of an answer, or a part of one, and
// from keeping it.
var ofAnswers = http.Header{
	"Content-Security-Policy": {"default-src 'none'; frame-ancestors 'none'"},
	"X-Content-Type-Options":  {"nosniff"},
	"Cache-Control":           {"no-store"},
}

// ofPages have a browser do only what our own pages ask of it. With no-referrer it would keep from
// us, too, of which page a form is: its Origin would be null, as that of another site.
var ofPages = http.Header{
	"Content-Security-Policy":      {"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"},
	"X-Content-Type-Options":       {"nosniff"},
	"X-Frame-Options":              {"DENY"},
	"Referrer-Policy":              {"same-origin"},
	"Cross-Origin-Opener-Policy":   {"same-origin"},
	"Cross-Origin-Resource-Policy": {"same-origin"},
	"Cache-Control":                {"no-store"},
}

// refusal is why the request is not let in; empty if it is.
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

// Safe reports whether the method says that the request changes nothing.
func Safe(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
}

// isForeign reports whether the request is one of another site's page that changes something, by whatever
// method.
func (g *guard) isForeign(r *http.Request, reads bool) bool {
	if !reads && Safe(r) {
		judged := *r
		judged.Method = http.MethodPost
		r = &judged
	}
	return g.origins.Check(r) != nil
}

// knows reports whether the front goes by that name. A page of another site can have its own name
// point here (DNS rebinding), but not choose an address or one of our names. HTTP/1.0 needs no name.
func (g *guard) knows(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if host == "" || slices.Contains(g.hosts, host) {
		return true
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil
}

// admits reports whether the request shows the token, or a user and his password. In a browser the
// token is the password of any user. What is compared are hashes, in constant time.
func (g *guard) admits(r *http.Request) bool {
	name, secret, ok := r.BasicAuth()
	if !ok {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return false
		}
		name, secret = "", strings.TrimSpace(token)
	}
	shown := sha256.Sum256([]byte(secret))
	password := g.users[name]
	isToken := subtle.ConstantTimeCompare(shown[:], g.token[:])
	isUser := subtle.ConstantTimeCompare(shown[:], password[:])
	return isToken|isUser == 1
}
