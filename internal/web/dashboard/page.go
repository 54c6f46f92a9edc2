package dashboard

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mix-basic/delayer/internal/web"
)

// page is one request and the page that answers it.
type page struct {
	*Dashboard
	language
	w       http.ResponseWriter
	r       *http.Request
	ctx     context.Context
	now     time.Time // as Redis has it where that is known
	form    url.Values
	at      *url.URL // what to load for another language
	status  int
	Theme   string // one of themes
	Name    string // of its template
	Data    any
	Done    string   // what an action has done that led here; empty if none did
	Trouble *problem // what an action has met that was to be done here; nil if none did
	Field   string   // the form's field that has to be corrected; empty if none has
}

// themes are the choices; auto leaves it to the browser.
var themes = []string{"auto", "light", "dark"}

// maxForm is how large a form may be: a body of 1 MiB, in which each byte may take three.
const maxForm = 4 << 20

// page makes a handler of what serves a page within a time. What it returns as an error is shown.
func (d *Dashboard) page(limit time.Duration, serve func(*page) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		p := d.newPage(w, r)
		p.ctx = ctx
		err := p.readForm()
		if err == nil {
			err = serve(p)
		}
		if err != nil {
			p.fail(p.problemOf(err))
		}
	}
}

func (d *Dashboard) newPage(w http.ResponseWriter, r *http.Request) *page {
	p := &page{Dashboard: d, w: w, r: r, now: time.Now(), at: r.URL, status: http.StatusOK}
	if r.Method == http.MethodPost {
		p.at = &url.URL{Path: "/"}
	}
	p.language = languageOf(p.choice("lang", languages...), r.Header.Get("Accept-Language"))
	p.Theme = cmp.Or(p.choice("theme", themes...), "auto")
	return p
}

// choice is which of these the user has chosen, with this request or earlier; empty if none. What is
// chosen now is kept for a year.
func (p *page) choice(name string, of ...string) string {
	if chosen := p.r.URL.Query().Get(name); slices.Contains(of, chosen) {
		p.setCookie("delayer_"+name, chosen, "/", 365*24*3600, http.SameSiteLaxMode)
		return chosen
	}
	if cookie, err := p.r.Cookie("delayer_" + name); err == nil && slices.Contains(of, cookie.Value) {
		return cookie.Value
	}
	return ""
}

// setCookie has the browser keep a value for some seconds, or forget it.
func (p *page) setCookie(name, value, path string, seconds int, site http.SameSite) {
	http.SetCookie(p.w, &http.Cookie{Name: name, Value: value, Path: path, MaxAge: seconds, Secure: web.Encrypted(p.r), HttpOnly: true, SameSite: site})
}

// readForm reads the query, or the body of a POST.
func (p *page) readForm() error {
	if p.r.Method != http.MethodPost {
		p.form = p.r.URL.Query()
		return nil
	}
	body, err := web.ReadBody(p.w, p.r, maxForm)
	if err != nil {
		return err
	}
	if p.form, err = url.ParseQuery(string(body)); err != nil {
		return &wrong{key: "wrong.form"}
	}
	return nil
}

// labels are the texts beside the fields that must be filled in.
var labels = map[string]string{"topic": "topic", "id": "job.id", "body": "job.body", "schedule": "schedules.name"}

// needs returns an error if the form has no value of one of these names.
func (p *page) needs(names ...string) error {
	for _, name := range names {
		if p.form.Get(name) == "" {
			return &wrong{"wrong.missing", p.T(cmp.Or(labels[name], name)), name}
		}
	}
	return nil
}

// setClock has times seen from Redis's clock, if it is known.
func (p *page) setClock(redis time.Time) { p.now = cmp.Or(redis, p.now) }

// lead sends the browser to a page.
func (p *page) lead(url string) error {
	p.w.Header().Set("Location", url)
	p.w.WriteHeader(http.StatusSeeOther)
	return nil
}

// show answers with the template of that name.
func (p *page) show(name string, data any) error {
	p.Name, p.Data, p.Done = name, data, p.takeFlash()
	var out bytes.Buffer
	if err := templates[name].ExecuteTemplate(&out, "layout", p); err != nil {
		http.Error(p.w, err.Error(), http.StatusInternalServerError) // a mistake of this package
		return nil
	}
	p.w.Header().Set("Content-Type", "text/html; charset=utf-8")
	p.w.WriteHeader(p.status)
	p.w.Write(out.Bytes())
	return nil
}

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
