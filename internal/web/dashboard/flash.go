package dashboard

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
)

const (
	// flashCookie carries what an action has done to the page that it leads to, which says it once. No
	// link can say it: a link can be made by anybody.
	flashCookie, flashPath = "delayer_done", "/ui/"
	// flashSeconds is for how long the browser keeps it, if it never comes to that page.
	flashSeconds = 60
)

// see sends the browser to a page, which is to say what was done to n.
func (p *page) see(url, action string, n int) error {
	p.sampler.changed.Store(true)
	value := strings.Join([]string{placeOf(url), action, strconv.Itoa(n)}, ".")
	p.setCookie(flashCookie, value, flashPath, flashSeconds, http.SameSiteStrictMode)
	return p.lead(url)
}

// takeFlash is what is to be said on this page; empty if nothing is. It is gone then.
func (p *page) takeFlash() string {
	cookie, err := p.r.Cookie(flashCookie)
	if err != nil || p.r.Method != http.MethodGet {
		return ""
	}
	parts := strings.Split(cookie.Value, ".")
	if len(parts) != 3 || parts[0] != placeOf(p.r.URL.RequestURI()) {
		return ""
	}
	p.setCookie(flashCookie, "", flashPath, -1, http.SameSiteStrictMode)
	return p.done(parts[1], countOf(parts[2]))
}

// placeOf stands for a page's address, which may be longer than a cookie.
func placeOf(url string) string {
	sum := sha256.Sum256([]byte(url))
	return hex.EncodeToString(sum[:8])
}
