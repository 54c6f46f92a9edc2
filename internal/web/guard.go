package web

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// guard decides who is let in.
type guard struct {
	token    [sha256.Size]byte
	users    map[string][sha256.Size]byte // passwords
	secured  bool                         // there is a token or a user
	hosts    []string
	readOnly bool
	origins  *http.CrossOriginProtection
}

func newGuard(o Options) *guard {
	g := &guard{hosts: []string{"localhost"}, readOnly: o.ReadOnly, origins: http.NewCrossOriginProtection()}
	g.token, g.users = sha256.Sum256([]byte(o.Token)), map[string][sha256.Size]byte{}
	for _, u := range o.Users {
		g.users[u.Name] = sha256.Sum256([]byte(u.Password))
	}
	if o.Token == "" { // which nobody can show
		g.token = [sha256.Size]byte{}
	}
	g.secured = o.Token != "" || len(o.Users) > 0
	for _, host := range o.Hosts {
		g.hosts = append(g.hosts, strings.ToLower(host))
	}
	return g
}

// protect lets in whom the guard knows.
func (g *guard) protect(a Area) http.Handler {
	refuse := a.Refuse
	if refuse == nil {
		refuse = func(w http.ResponseWriter, _ *http.Request, status int, why string) { http.Error(w, why, status) }
	}
	headers := ofAnswers
	if a.Pages {
		headers = ofPages
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		maps.Copy(w.Header(), headers)
		if status, why := g.refusal(a, r); why != "" {
			if status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Basic realm="Delayer", charset="UTF-8"`)
			}
			// What is left of the body is not worth reading.
			w.Header().Set("Connection", "close")
			refuse(w, r, status, why)
			return
		}
		ctx, cancel := toTheEnd(r)
		defer cancel()
		if a.Open {
			ctx = context.WithValue(ctx, admittedKey{}, !g.secured || g.admits(r))
		}
		a.Handler.ServeHTTP(w, r.WithContext(ctx))
	})
}

// Admitted reports whether whoever asks an open area might ask the others, too.
func Admitted(r *http.Request) bool {
	admitted, _ := r.Context().Value(admittedKey{}).(bool)
	return admitted
}

type admittedKey struct{}

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
func (g *guard) refusal(a Area, r *http.Request) (status int, why string) {
	if !g.knows(r.Host) {
		return http.StatusMisdirectedRequest, "this host's name is not known here: ask by address, or add the name to hosts in [http]"
	}
	if !a.Open && g.secured && !g.admits(r) {
		return http.StatusUnauthorized, "not authorized: send Authorization: Bearer with the token, or a user's name and password"
	}
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
	if err := g.origins.Check(r); err != nil {
		return http.StatusForbidden, "refused: the request comes from another site's page"
	}
	if g.readOnly && !reads && (a.Reads == nil || !a.Reads(r)) {
		return http.StatusForbidden, "refused: read_only is set in [http]"
	}
	return 0, ""
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
